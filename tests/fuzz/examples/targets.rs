//! Tells `cargo xtask fuzz` what there is: `list`, or `seeds TARGET FOLDER`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            for target in fuzz::TARGETS {
                println!("{}\t{}", target.name, target.about);
            }
        }
        ["seeds", name, folder] => {
            let seeds = fuzz::find(name).map(|target| (target.seeds)()).unwrap_or_default();
            for (index, seed) in seeds.iter().enumerate() {
                std::fs::write(Path::new(folder).join(format!("seed-{index:02}")), seed)?;
            }
        }
        _ => {
            eprintln!("usage: targets list | targets seeds TARGET FOLDER");
            std::process::exit(2);
        }
    }
    Ok(())
}
