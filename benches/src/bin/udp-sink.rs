//! `udp-sink ADDR:PORT SECONDS`: reads datagrams for that long after the first one and prints how many
//! of them and how many payload bytes came per second. The other end of a device's transmit limit.

#![forbid(unsafe_code)]

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, seconds] = args.as_slice() else {
        eprintln!("usage: udp-sink ADDR:PORT SECONDS");
        return ExitCode::from(2);
    };
    let Ok(seconds) = seconds.parse::<u64>() else {
        eprintln!("udp-sink: {seconds} is not a number of seconds");
        return ExitCode::from(2);
    };
    match measure(address, Duration::from_secs(seconds)) {
        Ok((datagrams, bytes, took)) => {
            let per_second = |n: u64| n as f64 / took.as_secs_f64();
            println!("{:.0} datagrams/s {:.0} bytes/s", per_second(datagrams), per_second(bytes));
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("udp-sink: {address}: {e}");
            ExitCode::FAILURE
        }
    }
}

fn measure(address: &str, duration: Duration) -> std::io::Result<(u64, u64, Duration)> {
    let socket = UdpSocket::bind(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut buffer = vec![0u8; 65_536];
    socket.recv(&mut buffer)?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    let begun = Instant::now();
    let (mut datagrams, mut bytes) = (0, 0);
    while begun.elapsed() < duration {
        match socket.recv(&mut buffer) {
            Ok(n) => {
                datagrams += 1;
                bytes += n as u64;
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(e) => return Err(e),
        }
    }
    Ok((datagrams, bytes, begun.elapsed()))
}
