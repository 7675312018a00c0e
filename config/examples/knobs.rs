//! Prints `docs/knobs.md`, or `config/knobs.toml` with `--toml`.

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--toml") {
        print!("{}", config::docs::knobs_toml());
    } else {
        print!("{}", config::docs::knobs_markdown());
    }
}
