//! Two `millrace` processes over memif.

use std::time::Duration;

use serde_json::Value;

use super::process::Process;
use super::{Place, Role};

const START: Duration = Duration::from_secs(60);
/// Beyond the length of a test.
const GRACE: Duration = Duration::from_secs(60);
/// Address of the server.
pub const SERVER: &str = "10.1.0.1";
const CLIENT: &str = "10.1.0.2";
/// Seconds of a run that do not count.
pub const OMIT: f64 = 0.5;

/// A server that listens.
#[derive(Debug)]
pub struct Server(Process);

impl Server {
    /// Start `millrace COMMAND -s FLAGS` and wait until it listens. `extra` goes into its start-up
    /// file.
    pub fn start(
        place: &Place,
        command: &str,
        extra: &str,
        flags: &[&str],
    ) -> Result<Self, String> {
        let mut process = start(place, Role::Server, command, extra, &[&["-s"], flags].concat())?;
        process.wait_for("listening", START)?;
        Ok(Self(process))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Ask it to end.
    pub fn stop(self) {
        self.0.stop();
    }
}

/// Start `millrace COMMAND -c SERVER FLAGS`. `extra` goes into its start-up file.
pub fn client(
    place: &Place,
    command: &str,
    extra: &str,
    flags: &[&str],
) -> Result<Process, String> {
    start(place, Role::Client, command, extra, &[&["-c", SERVER], flags].concat())
}

/// One measurement with `millrace rr`, or its like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run<'a> {
    /// Flags of the server.
    pub server: &'a [&'a str],
    /// Flags of the client.
    pub client: &'a [&'a str],
    /// For the start-up files of both.
    pub extra: &'a str,
    /// How long to measure.
    pub seconds: f64,
}

impl Run<'_> {
    /// Run `millrace rr` and return the client's document.
    pub fn rr(&self, place: &Place) -> Result<Value, String> {
        let server = Server::start(place, "rr", self.extra, self.server)?;
        let limit = self.limit()?;
        let (seconds, omit) = (self.seconds.to_string(), OMIT.to_string());
        let fixed = ["-t", &seconds, "-O", &omit, "-i", "0", "--json"];
        let client = client(place, "rr", self.extra, &[&fixed, self.client].concat())?;
        let said = client.finish(limit)?;
        server.stop();
        document(&said)
    }

    /// How long a client may take.
    pub fn limit(&self) -> Result<Duration, String> {
        let time = Duration::try_from_secs_f64(self.seconds).map_err(|e| e.to_string())?;
        Ok(time + GRACE)
    }
}

/// A number in a document.
pub fn field(document: &Value, pointer: &str) -> Result<f64, String> {
    let value = document.pointer(pointer).and_then(Value::as_f64);
    value.ok_or_else(|| format!("no {pointer} in {document:#}"))
}

/// The JSON document in what a process said: warnings go to the same file.
pub fn document(said: &str) -> Result<Value, String> {
    let begin = said.find('{').ok_or_else(|| format!("no JSON document in:\n{said}"))?;
    let mut documents = serde_json::Deserializer::from_str(&said[begin..]).into_iter::<Value>();
    match documents.next() {
        Some(Ok(document)) => Ok(document),
        Some(Err(e)) => Err(format!("not a JSON document, {e}:\n{said}")),
        None => Err("no JSON document".to_owned()),
    }
}

fn start(
    place: &Place,
    role: Role,
    command: &str,
    extra: &str,
    flags: &[&str],
) -> Result<Process, String> {
    let name = format!("millrace-{}", role.name());
    let file = place.directory.join(format!("{name}.toml"));
    let text = startup(place, role, extra);
    std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut args = vec![command.to_owned(), "--config".to_owned(), file.display().to_string()];
    args.extend(flags.iter().map(|&f| f.to_owned()));
    Process::start(&place.directory, &name, role.core(), &place.millrace, &args)
}

/// Name of the instance in this role.
pub fn instance(role: Role) -> String {
    format!("bench-{}-{}", std::process::id(), role.name())
}

fn startup(place: &Place, role: Role, extra: &str) -> String {
    let address = match role {
        Role::Server => SERVER,
        Role::Client => CLIENT,
    };
    format!(
        "instance = \"{}\"\n\n[dataplane]\ncores = \"{}\"\nidle = \"poll\"\nhugepages = {}\n\n\
         [[port]]\nvdev = \"{}\"\naddresses = [\"{address}/24\"]\n\n{extra}",
        instance(role),
        role.core(),
        place.hugepages,
        place.memif(role),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_around_a_document_do_not_matter() {
        let said = "millrace: a warning\n{\"a\": {\"b\": 1}}\nbye\n";
        assert_eq!(document(said).expect("there is one")["a"]["b"], 1);
        assert!(document("{\"a\": ").is_err());
        assert!(document("nothing").is_err());
    }
}
