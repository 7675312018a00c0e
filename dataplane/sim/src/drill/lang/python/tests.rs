use super::*;

struct Snapshot;

impl Variables for Snapshot {
    fn lookup(&self, name: &str) -> Option<Value> {
        Some(Value::Int(match name {
            "tcpi_snd_cwnd" => 10,
            "tcpi_rtt" => 50_123,
            "tcpi_pacing_rate" => u64::MAX.into(),
            _ => return None,
        }))
    }
}

fn run_with(state: &mut State, text: &str) -> Result<Vec<String>, PyError> {
    let program = parse(text, 1).expect(text);
    let mut printed = Vec::new();
    state.run(&program, &Snapshot, &mut printed)?;
    Ok(printed)
}

fn run(text: &str) -> Result<Vec<String>, PyError> {
    run_with(&mut State::default(), text)
}

fn shown(expr: &str) -> String {
    match run(&format!("print({expr})")) {
        Ok(lines) => lines.join("\n"),
        Err(error) => format!("! {error}"),
    }
}

#[test]
fn expressions_have_the_values_of_python() {
    for (expr, expected) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("7 // 2", "3"),
        ("-7 // 2", "-4"),
        ("-7 % 3", "2"),
        ("7 % -3", "-2"),
        ("7 / 2", "3.5"),
        ("6 / 2", "3.0"),
        ("1 / 3 < 0.3334", "True"),
        ("0.1 + 0.2 == 0.3", "True"),
        ("2 ** 10", "1024"),
        ("-2 ** 2", "-4"),
        ("1 << 4 | 1", "17"),
        ("6 & 3 ^ 1", "3"),
        ("~5", "-6"),
        ("not 0 and 1", "1"),
        ("0 or 'x'", "x"),
        ("1 < 2 < 3 != 4", "True"),
        ("1 < 3 < 2", "False"),
        ("1 if 0 else 2", "2"),
        ("2 in (1, 2)", "True"),
        ("2 not in (1, 2)", "False"),
        ("(1, 'a')", "(1, 'a')"),
        ("(1,)", "(1,)"),
        ("0x1f + 0b11", "34"),
        ("1e3", "1000.0"),
        ("abs(-2), max(1, 3, 2), min((4, 5))", "2 3 4"),
        ("int(7 / 2), round(2.5), round(3.5)", "3 2 4"),
        ("hex(255), len('abc'), str(1) + 'a'", "0xff 3 1a"),
        ("'a' 'b'", "ab"),
        ("tcpi_pacing_rate", "18446744073709551615"),
        ("1 == '1'", "False"),
        ("True + 1", "2"),
        ("1 // 0", "! division by zero"),
        ("1 < 'a'", "! cannot compare 'int' with 'str'"),
        ("nothing", "! name 'nothing' is not defined"),
        ("2 ** 200", "! the number does not fit into 128 bits"),
        ("open('x')", "! not in the Python subset: function 'open'"),
        ("[1, 2]", "! not in the Python subset: list"),
        ("f'a'", "! not in the Python subset: string with prefix 'f'"),
    ] {
        assert_eq!(shown(expr), expected, "{expr}");
    }
}

#[test]
fn percent_formats_as_in_python() {
    for (expr, expected) in [
        ("'cwnd=%d' % tcpi_snd_cwnd", "cwnd=10"),
        ("'%d %s %x%%' % (1, 'a', 255)", "1 a ff%"),
        ("'[%5d|%-5d|%05d|%+d]' % (1, 2, -3, 4)", "[    1|2    |-0003|+4]"),
        ("'%.2f %f' % (1.255, 1)", "1.26 1.000000"),
        ("'%#x %o %r' % (16, 8, 'q')", "0x10 10 'q'"),
        ("'%d' % 2.9", "2"),
        ("'%d %d' % 1", "! not enough arguments for format string"),
        ("'%d' % (1, 2)", "! not all arguments converted during string formatting"),
        ("'%d' % 'a'", "! %d format: a number is required, not str"),
    ] {
        assert_eq!(shown(expr), expected, "{expr}");
    }
}

#[test]
fn assertions_fail_with_line_and_message() {
    let failed = |text: &str| run(text).expect_err(text);
    let error = failed(
        "\nassert tcpi_snd_cwnd == 10\nassert tcpi_snd_cwnd == 11, 'cwnd=%d' % tcpi_snd_cwnd",
    );
    assert_eq!((error.line, error.to_string().as_str()), (3, "assertion failed: cwnd=10"));
    assert_eq!(failed("assert 1 == 2").kind, PyErrorKind::Assertion { message: None });
    assert_eq!(failed("assert 0, tcpi_rtt").to_string(), "assertion failed: 50123");
    assert_eq!(run("assert 50000 <= tcpi_rtt <= 51000, tcpi_rtt"), Ok(vec![]));
}

#[test]
fn names_persist_between_snippets() {
    let mut state = State::default();
    run_with(&mut state, "cwnd = base = tcpi_snd_cwnd; cwnd += 2").expect("runs");
    run_with(&mut state, "assert cwnd == 12 and base == 10").expect("runs");
    assert_eq!(state.get("cwnd"), Some(&Value::Int(12)));
}

#[test]
fn lines_continue_and_blocks_nest() {
    let text = "  x = 1; \\\n   y = 2\nif x == 1:\n  if y == 1: print(1)\n  elif y == 2:\n    print(2,\n  3)\n  else:\n    pass\nelse:\n  print(4)\nprint(5) # why\n";
    assert_eq!(run(text).expect("runs"), ["2 3", "5"]);
    assert_eq!(run("# nothing\n\n").expect("runs"), Vec::<String>::new());
}

#[test]
fn what_is_no_python_is_refused_with_its_line() {
    for (text, line) in [
        ("assert", 1),
        ("x = 1\ny = )", 2),
        ("x = (1", 1),
        ("x = 'a", 1),
        ("x 1", 1),
        ("x = 1\n  y = 2", 2),
        ("if 1:\npass", 2),
        ("1 = 2", 1),
        ("x = $", 1),
        ("x = 1 if 2", 1),
    ] {
        assert_eq!(parse(text, 1).expect_err(text).line, line, "{text}");
    }
    let deep = format!("x = {}1{}", "(".repeat(500), ")".repeat(500));
    assert!(parse(&deep, 1).expect_err("too deep").message.contains("nested"));
    let long = format!("x = 1{}", " + 1".repeat(500));
    assert!(parse(&long, 1).is_err());
}

#[test]
fn other_python_is_unsupported_and_not_an_error_until_it_runs() {
    let program = parse("for a in b:\n  pass\n  pass\nx = 1\nimport os", 1).expect("parses");
    let kinds: Vec<_> = program.statements.iter().map(|statement| &statement.kind).collect();
    assert!(
        matches!(
            kinds.as_slice(),
            [StmtKind::Unsupported(_), StmtKind::Assign { .. }, StmtKind::Unsupported(_)]
        ),
        "{kinds:?}"
    );
    assert!(matches!(run("import os").expect_err("unsupported").kind, PyErrorKind::Unsupported(_)));
}
