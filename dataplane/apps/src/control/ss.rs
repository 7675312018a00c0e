//! `millrace ss`: connections of a running instance, with the options and columns of the original.

use std::fmt::Write;

use clap::Args;
use runtime::protocol::Request;
use serde_json::Value;

use super::{connect, failed};
use crate::cli::Instance;
use crate::fault::Outcome;
use crate::output;

/// Connections of a running instance.
#[derive(Args, Debug)]
pub(crate) struct SsArgs {
    /// Listening and connected sockets
    #[arg(short, long)]
    all: bool,
    /// Listening sockets only
    #[arg(short, long)]
    listening: bool,
    /// Internal information of each connection
    #[arg(short, long)]
    info: bool,
    /// TCP (there is nothing else; accepted for habit)
    #[arg(short, long)]
    tcp: bool,
    /// Numeric (names are never resolved; accepted for habit)
    #[arg(short, long)]
    numeric: bool,
    /// No header line
    #[arg(short = 'H', long)]
    no_header: bool,
    /// Internal information on the same line
    #[arg(short = 'O', long)]
    oneline: bool,
    /// One JSON document with every field
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    instance: Instance,
}

pub(crate) fn run(args: &SsArgs) -> Outcome {
    let mut client = connect(&args.instance.instance)?;
    let answer = client.ask(&Request::Ss).map_err(|e| failed(&e))?;
    let state = |row: &Value| row["state"].as_str().unwrap_or_default().to_owned();
    let rows: Vec<&Value> = answer
        .as_array()
        .into_iter()
        .flatten()
        .filter(|row| match state(row).as_str() {
            "LISTEN" => args.all || args.listening,
            "TIME-WAIT" | "UNCONN" => args.all,
            _ => !args.listening || args.all,
        })
        .collect();
    if args.json {
        return output::print(&format!(
            "{:#}\n",
            Value::from(rows.into_iter().cloned().collect::<Vec<_>>())
        ));
    }
    let mut text = String::new();
    if !args.no_header {
        let _ = writeln!(
            text,
            "{:<11}{:>8}{:>8} {:>27} {:>27}  {:<6}  Port",
            "State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port", "Worker"
        );
    }
    for row in rows {
        let word = |key: &str| row[key].as_str().unwrap_or_default();
        let _ = write!(
            text,
            "{:<11}{:>8}{:>8} {:>27} {:>27}  {:<6}  {}",
            word("state"),
            row["recv_q"].to_string(),
            row["send_q"].to_string(),
            word("local"),
            word("peer"),
            row["worker"].to_string(),
            row["port"].as_str().unwrap_or("*")
        );
        if args.info && row["info"].is_object() {
            text.push_str(if args.oneline { " " } else { "\n\t " });
            text.push_str(&info(&row["info"]));
        }
        text.push('\n');
    }
    output::print(&text)
}

/// The second line of `ss -i`: fields that are zero are left out, as in the original.
fn info(i: &Value) -> String {
    let mut words: Vec<String> = Vec::new();
    let number = |key: &str| i[key].as_u64().unwrap_or(0);
    let millis = |key: &str| number(key) as f64 / 1000.0;
    for (flag, word) in
        [("timestamps", "ts"), ("sack", "sack"), ("ecn", "ecn"), ("ecn_seen", "ecnseen")]
    {
        if i[flag].as_bool() == Some(true) {
            words.push(word.to_owned());
        }
    }
    words.push(i["congestion"].as_str().unwrap_or_default().to_owned());
    if number("snd_wscale") + number("rcv_wscale") > 0 {
        words.push(format!("wscale:{},{}", number("snd_wscale"), number("rcv_wscale")));
    }
    if let Some(dctcp) = i["dctcp"].as_object() {
        let word = |key: &str| dctcp.get(key).and_then(Value::as_u64).unwrap_or(0);
        words.push(format!(
            "dctcp:(ce_state:{},alpha:{},ab_ecn:{},ab_tot:{})",
            word("ce_state"),
            word("alpha_per_1024"),
            word("ab_ecn_bytes"),
            word("ab_tot_bytes")
        ));
    }
    words.push(format!("rto:{}", number("rto_us") / 1000));
    if number("rtt_us") > 0 {
        words.push(format!("rtt:{}/{}", millis("rtt_us"), millis("rttvar_us")));
    }
    for (key, word) in [
        ("backoff", "backoff"),
        ("mss_bytes", "mss"),
        ("pmtu_bytes", "pmtu"),
        ("rcvmss_bytes", "rcvmss"),
        ("advmss_bytes", "advmss"),
        ("cwnd_segs", "cwnd"),
        ("ssthresh_segs", "ssthresh"),
        ("bytes_sent", "bytes_sent"),
        ("bytes_retrans", "bytes_retrans"),
        ("bytes_acked", "bytes_acked"),
        ("bytes_received", "bytes_received"),
        ("segs_out", "segs_out"),
        ("segs_in", "segs_in"),
        ("unacked_segs", "unacked"),
        ("total_retrans_segs", "retrans"),
        ("lost_segs", "lost"),
        ("sacked_segs", "sacked"),
        ("notsent_bytes", "notsent"),
        ("snd_wnd_bytes", "snd_wnd"),
        ("rcv_wnd_bytes", "rcv_wnd"),
        ("rehash", "rehash"),
    ] {
        match number(key) {
            0 => {}
            n if key == "total_retrans_segs" => {
                words.push(format!("{word}:{}/{n}", number("retrans_segs")));
            }
            n => words.push(format!("{word}:{n}")),
        }
    }
    if number("min_rtt_us") > 0 {
        words.push(format!("minrtt:{}", millis("min_rtt_us")));
    }
    words.join(" ")
}
