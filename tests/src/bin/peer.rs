//! The kernel's side of interop tests: ordinary sockets that check every byte.
//!
//! `echo ADDR:PORT BYTES [STREAMS]` sends a pattern, reads it back and compares; `churn ADDR:PORT COUNT`
//! opens, uses and closes connections one after another, in all close orders; `scan ADDR FROM TO` knocks
//! at ports; `hold ADDR:PORT [COUNT]` connects and waits to be killed; `half ADDR:PORT BYTES` closes its
//! sending side before it reads; `serve-echo ADDR:PORT` echoes until it is killed; `sizes ADDR:PORT BYTES
//! TIMES` sends blocks and expects as many bytes back for each, whatever is in them.

#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["echo", at, bytes] => echo(at, bytes, "1"),
        ["echo", at, bytes, streams] => echo(at, bytes, streams),
        ["churn", at, count] => churn(at, count),
        ["scan", ip, from, to] => scan(ip, from, to),
        ["hold", at] => hold(at, "1"),
        ["hold", at, count] => hold(at, count),
        ["half", at, bytes] => half(at, bytes),
        ["serve-echo", at] => serve_echo(at),
        ["sizes", at, bytes, times] => sizes(at, bytes, times),
        _ => {
            eprintln!("usage: echo|churn|scan|hold|half|serve-echo|sizes …");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{args:?}: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Echo on as many connections as come.
fn serve_echo(at: &str) -> io::Result<()> {
    let listener = std::net::TcpListener::bind(at)?;
    println!("serving");
    for stream in listener.incoming() {
        let mut stream = stream?;
        thread::spawn(move || {
            let mut block = [0; 65_536];
            // A peer that resets ends its own thread only.
            while let Ok(n @ 1..) = stream.read(&mut block) {
                if stream.write_all(&block[..n]).is_err() {
                    return;
                }
            }
        });
    }
    Ok(())
}

/// Send blocks, and read as many bytes back for each.
fn sizes(at: &str, bytes: &str, times: &str) -> io::Result<()> {
    let mut stream = connect(at)?;
    let mut block = vec![0; usize::try_from(number(bytes)?).unwrap_or(0)];
    for _ in 0..number(times)? {
        stream.write_all(&vec![b'x'; block.len()])?;
        stream.read_exact(&mut block)?;
    }
    println!("{times} answers of {bytes} bytes");
    Ok(())
}

/// The byte at `position` of the stream with this number: no period that a lost or repeated segment
/// could fall into.
fn pattern(stream: u64, position: u64) -> u8 {
    let x = (position ^ (stream << 56)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x >> 56) as u8
}

fn connect(at: &str) -> io::Result<TcpStream> {
    let address: SocketAddr =
        at.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "not an address"))?;
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.set_write_timeout(Some(Duration::from_secs(60)))?;
    Ok(stream)
}

fn number(text: &str) -> io::Result<u64> {
    text.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "not a number"))
}

fn write_pattern(mut to: impl Write, stream: u64, bytes: u64) -> io::Result<()> {
    let mut block = vec![0u8; 64 << 10];
    let mut at = 0;
    while at < bytes {
        // Writes of all sizes, so that segments do not line up with them.
        let n = (1 + (at.wrapping_mul(2_654_435_761) >> 7) % block.len() as u64).min(bytes - at);
        for (i, b) in block[..n as usize].iter_mut().enumerate() {
            *b = pattern(stream, at + i as u64);
        }
        to.write_all(&block[..n as usize])?;
        at += n;
    }
    Ok(())
}

fn check_pattern(mut from: impl Read, stream: u64, bytes: u64) -> io::Result<()> {
    let mut block = vec![0u8; 64 << 10];
    let mut at = 0;
    while at < bytes {
        let n = from.read(&mut block)?;
        if n == 0 {
            return Err(io::Error::other(format!("end after {at} of {bytes} bytes")));
        }
        for (i, b) in block[..n].iter().enumerate() {
            if *b != pattern(stream, at + i as u64) {
                return Err(io::Error::other(format!("wrong byte at {}", at + i as u64)));
            }
        }
        at += n as u64;
    }
    if at > bytes {
        return Err(io::Error::other(format!("{at} bytes instead of {bytes}")));
    }
    Ok(())
}

fn must_end(mut from: impl Read) -> io::Result<()> {
    match from.read(&mut [0u8; 1])? {
        0 => Ok(()),
        _ => Err(io::Error::other("more bytes than were sent")),
    }
}

fn echo(at: &str, bytes: &str, streams: &str) -> io::Result<()> {
    let (bytes, streams) = (number(bytes)?, number(streams)?);
    let at = at.to_owned();
    let threads: Vec<_> = (0..streams)
        .map(|stream| {
            let at = at.clone();
            thread::spawn(move || -> io::Result<()> {
                let socket = connect(&at)?;
                let writer = socket.try_clone()?;
                let sender = thread::spawn(move || {
                    write_pattern(&writer, stream, bytes)?;
                    writer.shutdown(Shutdown::Write)
                });
                check_pattern(&socket, stream, bytes)?;
                must_end(&socket)?;
                sender.join().map_err(|_| io::Error::other("sender panicked"))?
            })
        })
        .collect();
    for t in threads {
        t.join().map_err(|_| io::Error::other("stream panicked"))??;
    }
    Ok(())
}

fn half(at: &str, bytes: &str) -> io::Result<()> {
    let bytes = number(bytes)?;
    let socket = connect(at)?;
    write_pattern(&socket, 1, bytes)?;
    socket.shutdown(Shutdown::Write)?;
    check_pattern(&socket, 1, bytes)?;
    must_end(&socket)
}

fn churn(at: &str, count: &str) -> io::Result<()> {
    for i in 0..number(count)? {
        let mut socket = connect(at).map_err(|e| io::Error::new(e.kind(), format!("#{i}: {e}")))?;
        match i % 4 {
            // A word and its echo, then an orderly close.
            0 => {
                socket.write_all(b"hello")?;
                socket.read_exact(&mut [0u8; 5])?;
            }
            // Closed with the echo unread: the kernel resets.
            1 => socket.write_all(b"never read")?,
            // Nothing at all.
            2 => {}
            // Half close first.
            _ => {
                socket.write_all(b"bye")?;
                socket.shutdown(Shutdown::Write)?;
                let mut all = Vec::new();
                socket.read_to_end(&mut all)?;
                if all != b"bye" {
                    return Err(io::Error::other("echo after half close is wrong"));
                }
            }
        }
    }
    Ok(())
}

fn scan(ip: &str, from: &str, to: &str) -> io::Result<()> {
    let ip =
        ip.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "not an address"))?;
    let (mut open, mut closed) = (0, 0);
    for port in number(from)?..=number(to)? {
        let address = SocketAddr::new(ip, u16::try_from(port).unwrap_or(u16::MAX));
        match TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
            Ok(mut stream) => {
                open += 1;
                let _ =
                    stream.write_all(&b"\x16\x03\x01GET / HTTP/1.0\r\n\r\n"[..port as usize % 22]);
            }
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => closed += 1,
            Err(e) => return Err(io::Error::new(e.kind(), format!("port {port}: {e}"))),
        }
    }
    println!("{open} open {closed} closed");
    Ok(())
}

fn hold(at: &str, count: &str) -> io::Result<()> {
    let mut held = Vec::new();
    for _ in 0..number(count)? {
        let mut socket = connect(at)?;
        socket.write_all(b"x")?;
        socket.read_exact(&mut [0u8; 1])?;
        held.push(socket);
    }
    println!("connected");
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}
