//! What a call returned against what it must.

use sockets::{EpollEvent, Errno, Received, Value};

use super::super::lang::ast::{EpollMember, Expr, ExprKind, Syscall};
use super::super::lang::symbols;
use super::Returned;
use super::translate::{bracketed, control_of, int, message};

/// A result for people.
pub(super) fn shown(returned: &Returned) -> String {
    match returned {
        Ok(value) => value.returned().to_string(),
        Err(errno) => format!("-1 {}", errno.name()),
    }
}

/// Everything in which `returned` is not what the script says; empty: it is.
pub(super) fn differences(call: &Syscall, returned: &Returned) -> Vec<String> {
    let mut out = Vec::new();
    number(call, returned, &mut out);
    errno(call, returned, &mut out);
    if out.is_empty()
        && let Ok(value) = returned
    {
        outputs(call, value, &mut out);
    }
    out
}

/// Whether what a call returns is a descriptor, whose number is the tool's business.
fn returns_descriptor(name: &str) -> bool {
    matches!(name, "socket" | "accept" | "epoll_create" | "open")
}

fn number(call: &Syscall, returned: &Returned, out: &mut Vec<String>) {
    if matches!(call.result.kind, ExprKind::Ellipsis) {
        return;
    }
    let Some(expected) = int(&call.result) else {
        out.push(format!("{} is no result", call.result));
        return;
    };
    let actual = match returned {
        Ok(value) => value.returned(),
        Err(_) => -1,
    };
    let fits = if returns_descriptor(&call.name) && expected >= 0 {
        actual >= 0
    } else {
        actual == expected
    };
    if !fits {
        out.push(format!("it returned {}", shown(returned)));
    }
}

fn errno(call: &Syscall, returned: &Returned, out: &mut Vec<String>) {
    let Some(expected) = &call.errno else { return };
    let actual: Option<&Errno> = returned.as_ref().err();
    if !out.is_empty() {
        return;
    }
    match (symbols::errno(expected), actual) {
        (None, _) => out.push(format!("{expected} is no error")),
        (Some(number), Some(actual)) if actual.number() == number => {}
        (Some(_), Some(_)) => out.push(format!("it returned {}", shown(returned))),
        // A call that succeeds leaves errno alone; scripts that say otherwise are wrong.
        (Some(_), None) => out.push("it succeeded".into()),
    }
}

/// What came back through pointers.
fn outputs(call: &Syscall, value: &Value, out: &mut Vec<String>) {
    match (call.name.as_str(), value) {
        ("getsockopt", Value::Option(bytes)) => option(call, bytes, out),
        ("ioctl", Value::Out(actual)) => {
            if let Some(expected) = call.args.get(2).and_then(bracketed)
                && expected != i64::from(*actual)
            {
                out.push(format!("it stored {actual}, not {expected}"));
            }
        }
        ("poll", Value::Polled(revents)) => poll(call, revents, out),
        ("epoll_wait", Value::Events(events)) => epoll(call, events, out),
        ("recvmsg", Value::Received(received)) => recvmsg(call, received, out),
        _ => {}
    }
}

fn option(call: &Syscall, bytes: &[u8], out: &mut Vec<String>) {
    let (Some(expected), Some(len)) = (call.args.get(3), call.args.get(4).and_then(bracketed))
    else {
        return;
    };
    if len != bytes.len() as i64 {
        out.push(format!("it stored {} bytes, not {len}", bytes.len()));
        return;
    }
    match &expected.kind {
        ExprKind::Ellipsis => {}
        ExprKind::Text { bytes: text, .. } => {
            if text.as_slice() != bytes {
                out.push(format!("it stored {:?}", String::from_utf8_lossy(bytes)));
            }
        }
        ExprKind::List(_) => {
            let wanted = bracketed(expected);
            let actual = match *bytes {
                [a, b, c, d] => Some(i64::from(i32::from_ne_bytes([a, b, c, d]))),
                [a] => Some(i64::from(a)),
                _ => None,
            };
            // Written with or without its sign.
            let same = wanted.zip(actual).is_some_and(|(w, a)| w as i32 == a as i32);
            if !same {
                let actual = actual.map_or_else(|| format!("{bytes:?}"), |n| n.to_string());
                out.push(format!("it stored {actual}"));
            }
        }
        ExprKind::Linger { onoff, linger } => {
            if bytes != [onoff.to_ne_bytes(), linger.to_ne_bytes()].concat() {
                out.push(format!("it stored {bytes:?}"));
            }
        }
        _ => out.push(format!("{expected} cannot be compared with {bytes:?}")),
    }
}

fn poll(call: &Syscall, revents: &[u16], out: &mut Vec<String>) {
    let Some(ExprKind::List(list)) = call.args.first().map(|list| &list.kind) else { return };
    for (index, (entry, actual)) in list.iter().zip(revents).enumerate() {
        let ExprKind::PollFd(entry) = &entry.kind else { continue };
        let expected = entry.revents.as_ref().map_or(Some(0), int);
        if expected != Some(i64::from(*actual)) {
            let names = symbols::mask_names("POLL", i64::from(*actual));
            out.push(format!("revents of entry {index} are {names}"));
        }
    }
}

fn epoll(call: &Syscall, events: &[EpollEvent], out: &mut Vec<String>) {
    let Some(ExprKind::EpollEvent(expected)) = call.args.get(1).map(|event| &event.kind) else {
        return;
    };
    // Without an event the memory is as it was: zero.
    let actual = events.first().copied().unwrap_or(EpollEvent { events: 0, data: 0 });
    if int(&expected.events).map(|n| n as u32) != Some(actual.events) {
        let names = symbols::mask_names("EPOLL", i64::from(actual.events));
        out.push(format!("the events are {names}"));
    }
    let wanted = int(&expected.data).map(i64::cast_unsigned);
    let same = match expected.member {
        EpollMember::Fd | EpollMember::U32 => wanted.map(|n| n as u32) == Some(actual.data as u32),
        EpollMember::Ptr | EpollMember::U64 => wanted == Some(actual.data),
    };
    if !same {
        out.push(format!("the data of the event is {}", actual.data));
    }
}

fn recvmsg(call: &Syscall, received: &Received, out: &mut Vec<String>) {
    let Some(expected) = call.args.get(1).and_then(|expr| message(expr).ok()) else { return };
    if !matches!(expected.flags.kind, ExprKind::Ellipsis)
        && int(&expected.flags) != Some(i64::from(received.flags))
    {
        let names = symbols::mask_names("MSG_", i64::from(received.flags));
        out.push(format!("msg_flags are {names}"));
    }
    let Some(controls) = &expected.control else { return };
    if controls.len() != received.control.len() {
        out.push(format!(
            "{} control messages came, not {}",
            received.control.len(),
            controls.len()
        ));
        return;
    }
    for (expected, actual) in controls.iter().zip(&received.control) {
        control(expected, actual, out);
    }
}

fn control(expected: &Expr, actual: &sockets::Control, out: &mut Vec<String>) {
    match control_of(expected) {
        Ok(wanted) if wanted == *actual => {}
        Ok(_) => out.push(format!(
            "a control message of level {} and type {} came with {:?}, not {expected}",
            actual.level, actual.kind, actual.data
        )),
        Err(why) => out.push(why.to_string()),
    }
}
