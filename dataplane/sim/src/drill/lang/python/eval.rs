//! Running snippets.

use core::fmt;
use std::collections::BTreeMap;

use super::value::round_half_even;
use super::{
    BinaryOp, Builtin, CompareOp, Expr, ExprKind, Program, Stmt, StmtKind, UnaryOp, Value,
};

/// Where a snippet finds what it did not assign itself: `tcpi_…` and constants.
pub trait Variables {
    /// The value of a name at the time of the snippet.
    fn lookup(&self, name: &str) -> Option<Value>;
}

/// What persists from snippet to snippet.
#[derive(Clone, Debug, Default)]
pub struct State {
    names: BTreeMap<String, Value>,
}

/// Why a snippet stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PyError {
    /// The line in the script.
    pub line: u32,
    /// Why.
    pub kind: PyErrorKind,
}

/// Why a snippet stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PyErrorKind {
    /// An assertion did not hold.
    Assertion {
        /// Its message, if it has one.
        message: Option<String>,
    },
    /// Python's own errors: a name, a type, a division by zero, a number that does not fit.
    Error(String),
    /// Python that is not in the subset.
    Unsupported(String),
}

impl fmt::Display for PyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            PyErrorKind::Assertion { message: None } => f.write_str("assertion failed"),
            PyErrorKind::Assertion { message: Some(text) } => write!(f, "assertion failed: {text}"),
            PyErrorKind::Error(text) => f.write_str(text),
            PyErrorKind::Unsupported(what) => write!(f, "not in the Python subset: {what}"),
        }
    }
}

impl State {
    /// Runs a snippet; what it prints goes to `printed`, a line each.
    pub fn run(
        &mut self,
        program: &Program,
        variables: &dyn Variables,
        printed: &mut Vec<String>,
    ) -> Result<(), PyError> {
        Run { state: self, variables, printed }.block(&program.statements)
    }

    /// A name that a snippet has assigned.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.names.get(name)
    }
}

/// One run of one snippet.
struct Run<'a> {
    state: &'a mut State,
    variables: &'a dyn Variables,
    printed: &'a mut Vec<String>,
}

type Outcome<T> = Result<T, PyError>;

fn error<T>(line: u32, text: impl Into<String>) -> Outcome<T> {
    Err(PyError { line, kind: PyErrorKind::Error(text.into()) })
}

fn unsupported<T>(line: u32, what: &str) -> Outcome<T> {
    Err(PyError { line, kind: PyErrorKind::Unsupported(what.into()) })
}

impl Run<'_> {
    fn block(&mut self, statements: &[Stmt]) -> Outcome<()> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Stmt) -> Outcome<()> {
        let line = statement.line;
        match &statement.kind {
            StmtKind::Assign { names, value } => {
                let value = self.eval(value)?;
                for name in names {
                    self.state.names.insert(name.clone(), value.clone());
                }
            }
            StmtKind::Update { name, op, value } => {
                let old = self.name(line, name)?;
                let new = self.eval(value)?;
                let result = binary(line, *op, &old, &new)?;
                self.state.names.insert(name.clone(), result);
            }
            StmtKind::Assert { test, message } => {
                if !self.eval(test)?.truth() {
                    let message = match message {
                        Some(message) => Some(self.eval(message)?.to_string()),
                        None => None,
                    };
                    return Err(PyError { line, kind: PyErrorKind::Assertion { message } });
                }
            }
            StmtKind::Print(values) => {
                let mut words = Vec::new();
                for value in values {
                    words.push(self.eval(value)?.to_string());
                }
                self.printed.push(words.join(" "));
            }
            StmtKind::If { branches, otherwise } => {
                for (test, block) in branches {
                    if self.eval(test)?.truth() {
                        return self.block(block);
                    }
                }
                return self.block(otherwise);
            }
            StmtKind::Expression(value) => {
                self.eval(value)?;
            }
            StmtKind::Pass => {}
            StmtKind::Unsupported(what) => return unsupported(line, what),
        }
        Ok(())
    }

    fn name(&self, line: u32, name: &str) -> Outcome<Value> {
        match self.state.names.get(name).cloned().or_else(|| self.variables.lookup(name)) {
            Some(value) => Ok(value),
            None => error(line, format!("name '{name}' is not defined")),
        }
    }

    /// Evaluates an expression, whose depth the parser has bounded.
    fn eval(&self, expr: &Expr) -> Outcome<Value> {
        let line = expr.line;
        match &expr.kind {
            ExprKind::Constant(value) => Ok(value.clone()),
            ExprKind::Name(name) => self.name(line, name),
            ExprKind::Tuple(items) => Ok(Value::Tuple(self.all(items)?)),
            ExprKind::Unary(op, operand) => unary(line, *op, &self.eval(operand)?),
            ExprKind::Binary(op, left, right) => {
                let (left, right) = (self.eval(left)?, self.eval(right)?);
                binary(line, *op, &left, &right)
            }
            ExprKind::Compare(first, rest) => {
                let mut left = self.eval(first)?;
                for (op, right) in rest {
                    let right = self.eval(right)?;
                    if !compare(line, *op, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Ok(Value::Bool(true))
            }
            ExprKind::And(operands) => self.until(operands, false),
            ExprKind::Or(operands) => self.until(operands, true),
            ExprKind::Conditional { test, then, otherwise } => {
                let chosen = if self.eval(test)?.truth() { then } else { otherwise };
                self.eval(chosen)
            }
            ExprKind::Call(function, arguments) => call(line, *function, &self.all(arguments)?),
            ExprKind::Unsupported(what) => unsupported(line, what),
        }
    }

    fn all(&self, items: &[Expr]) -> Outcome<Vec<Value>> {
        items.iter().map(|item| self.eval(item)).collect()
    }

    /// The first operand whose truth is `stop`, or the last one.
    fn until(&self, operands: &[Expr], stop: bool) -> Outcome<Value> {
        let mut last = Value::None;
        for operand in operands {
            last = self.eval(operand)?;
            if last.truth() == stop {
                break;
            }
        }
        Ok(last)
    }
}

/// A fraction that comes from an integer by `/` stays a float, as in Python.
fn ratio(line: u32, num: Option<i128>, den: Option<i128>) -> Outcome<Value> {
    match (num, den) {
        (Some(_), Some(0)) => error(line, "division by zero"),
        (Some(num), Some(den)) => match Value::ratio(num, den) {
            Some(value) => Ok(value),
            None => error(line, TOO_LARGE),
        },
        _ => error(line, TOO_LARGE),
    }
}

const TOO_LARGE: &str = "the number does not fit into 128 bits";

fn integer(line: u32, value: Option<i128>) -> Outcome<Value> {
    match value {
        Some(value) => Ok(Value::Int(value)),
        None => error(line, TOO_LARGE),
    }
}

fn unary(line: u32, op: UnaryOp, operand: &Value) -> Outcome<Value> {
    let refuse = || error(line, format!("bad operand type: '{}'", operand.type_name()));
    match (op, operand.as_int(), operand.as_ratio()) {
        (UnaryOp::Not, ..) => Ok(Value::Bool(!operand.truth())),
        (UnaryOp::Negate, Some(n), _) => integer(line, n.checked_neg()),
        (UnaryOp::Plus, Some(n), _) => Ok(Value::Int(n)),
        (UnaryOp::Invert, Some(n), _) => Ok(Value::Int(!n)),
        (UnaryOp::Negate, None, Some((num, den))) => ratio(line, num.checked_neg(), Some(den)),
        (UnaryOp::Plus, None, Some(_)) => Ok(operand.clone()),
        _ => refuse(),
    }
}

fn binary(line: u32, op: BinaryOp, left: &Value, right: &Value) -> Outcome<Value> {
    if let (BinaryOp::Modulo, Value::Text(format)) = (op, left) {
        return match percent(format, right) {
            Ok(text) => Ok(Value::Text(text)),
            Err(text) => error(line, text),
        };
    }
    if let (BinaryOp::Add, Value::Text(a), Value::Text(b)) = (op, left, right) {
        return Ok(Value::Text(format!("{a}{b}")));
    }
    if let (Some(a), Some(b)) = (left.as_int(), right.as_int()) {
        return integers(line, op, a, b);
    }
    let (Some(a), Some(b)) = (left.as_ratio(), right.as_ratio()) else {
        let (a, b) = (left.type_name(), right.type_name());
        return error(line, format!("unsupported operand types: '{a}' and '{b}'"));
    };
    let cross = || a.0.checked_mul(b.1).zip(b.0.checked_mul(a.1));
    let den = a.1.checked_mul(b.1);
    match op {
        BinaryOp::Add => ratio(line, cross().and_then(|(x, y)| x.checked_add(y)), den),
        BinaryOp::Subtract => ratio(line, cross().and_then(|(x, y)| x.checked_sub(y)), den),
        BinaryOp::Multiply => ratio(line, a.0.checked_mul(b.0), den),
        BinaryOp::Divide => ratio(line, a.0.checked_mul(b.1), a.1.checked_mul(b.0)),
        _ => unsupported(line, "operator on fractions"),
    }
}

fn integers(line: u32, op: BinaryOp, a: i128, b: i128) -> Outcome<Value> {
    let shift = || u32::try_from(b).ok();
    let by_zero =
        matches!(op, BinaryOp::Divide | BinaryOp::FloorDivide | BinaryOp::Modulo) && b == 0;
    if by_zero {
        return error(line, "division by zero");
    }
    let value = match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Subtract => a.checked_sub(b),
        BinaryOp::Multiply => a.checked_mul(b),
        BinaryOp::Divide => return ratio(line, Some(a), Some(b)),
        BinaryOp::FloorDivide => floor_divide(a, b),
        BinaryOp::Modulo => {
            floor_divide(a, b).and_then(|q| q.checked_mul(b)).and_then(|part| a.checked_sub(part))
        }
        BinaryOp::Power => match shift() {
            Some(exponent) => a.checked_pow(exponent),
            None => return unsupported(line, "power with such an exponent"),
        },
        BinaryOp::And => Some(a & b),
        BinaryOp::Or => Some(a | b),
        BinaryOp::Xor => Some(a ^ b),
        BinaryOp::ShiftLeft => shift()
            .and_then(|bits| 2_i128.checked_pow(bits))
            .and_then(|factor| a.checked_mul(factor)),
        BinaryOp::ShiftRight => {
            // Beyond the width only the sign is left.
            shift().map(|bits| a >> bits.min(i128::BITS - 1))
        }
    };
    integer(line, value)
}

/// Division towards minus infinity, as Python has it.
fn floor_divide(a: i128, b: i128) -> Option<i128> {
    let quotient = a.checked_div(b)?;
    let exact = quotient.checked_mul(b)? == a;
    if !exact && ((a < 0) != (b < 0)) { quotient.checked_sub(1) } else { Some(quotient) }
}

fn compare(line: u32, op: CompareOp, left: &Value, right: &Value) -> Outcome<bool> {
    let order = match op {
        CompareOp::Equal => return Ok(left.equals(right)),
        CompareOp::NotEqual => return Ok(!left.equals(right)),
        CompareOp::In | CompareOp::NotIn => {
            let found = match (left, right) {
                (_, Value::Tuple(items)) => items.iter().any(|item| item.equals(left)),
                (Value::Text(part), Value::Text(whole)) => whole.contains(part.as_str()),
                _ => return error(line, format!("'{}' has no members", right.type_name())),
            };
            return Ok(found == (op == CompareOp::In));
        }
        _ => left.compare(right),
    };
    let Some(order) = order else {
        let (a, b) = (left.type_name(), right.type_name());
        return error(line, format!("cannot compare '{a}' with '{b}'"));
    };
    Ok(match op {
        CompareOp::Less => order.is_lt(),
        CompareOp::LessOrEqual => order.is_le(),
        CompareOp::Greater => order.is_gt(),
        _ => order.is_ge(),
    })
}

fn call(line: u32, function: Builtin, arguments: &[Value]) -> Outcome<Value> {
    let items = match (function, arguments) {
        (Builtin::Min | Builtin::Max, [Value::Tuple(items)]) => items.as_slice(),
        _ => arguments,
    };
    if let Builtin::Min | Builtin::Max = function {
        let Some((first, rest)) = items.split_first() else {
            return error(line, "min and max need an argument");
        };
        let op = if function == Builtin::Min { CompareOp::Less } else { CompareOp::Greater };
        let mut best = first;
        for item in rest {
            if compare(line, op, item, best)? {
                best = item;
            }
        }
        return Ok(best.clone());
    }
    let [value] = arguments else {
        return error(line, "this function takes one argument");
    };
    let bad_type = || error(line, format!("not for '{}'", value.type_name()));
    match function {
        Builtin::Bool => Ok(Value::Bool(value.truth())),
        Builtin::Str => Ok(Value::Text(value.to_string())),
        Builtin::Len => match value {
            Value::Text(text) => Ok(Value::Int(text.chars().count() as i128)),
            Value::Tuple(items) => Ok(Value::Int(items.len() as i128)),
            _ => bad_type(),
        },
        Builtin::Hex => match value.as_int() {
            Some(n) if n < 0 => Ok(Value::Text(format!("-{:#x}", n.unsigned_abs()))),
            Some(n) => Ok(Value::Text(format!("{n:#x}"))),
            None => bad_type(),
        },
        Builtin::Int | Builtin::Round | Builtin::Abs | Builtin::Float => {
            let Some((num, den)) = value.as_ratio() else {
                return bad_type();
            };
            match function {
                Builtin::Int => integer(line, num.checked_div(den)),
                Builtin::Round => integer(line, round_half_even(num, den)),
                Builtin::Float => ratio(line, Some(num), Some(den)),
                _ if value.as_int().is_some() => integer(line, num.checked_abs()),
                _ => ratio(line, num.checked_abs(), Some(den)),
            }
        }
        Builtin::Min | Builtin::Max => bad_type(),
    }
}

/// `format % values`: `%d`, `%i`, `%u`, `%x`, `%X`, `%o`, `%s`, `%r`, `%f`, `%g`, `%%`, with flags `-`, `0`,
/// `#` and `+`, a width and a precision.
fn percent(format: &str, values: &Value) -> Result<String, String> {
    let single = core::slice::from_ref(values);
    let mut values = match values {
        Value::Tuple(items) => items.iter(),
        _ => single.iter(),
    };
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut flags = String::new();
        while let Some(flag) = chars.next_if(|c| "-0#+ ".contains(*c)) {
            flags.push(flag);
        }
        let width = take_number(&mut chars).unwrap_or(0);
        let places = chars.next_if_eq(&'.').map(|_| take_number(&mut chars).unwrap_or(0));
        while chars.next_if(|c| "lhL".contains(*c)).is_some() {}
        let Some(kind) = chars.next() else { return Err("incomplete format".into()) };
        if kind == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = values.next() else {
            return Err("not enough arguments for format string".into());
        };
        let text = conversion(kind, value, places, flags.contains('#'))?;
        let plus = flags.contains('+') && !text.starts_with('-') && kind != 's' && kind != 'r';
        let text = if plus { format!("+{text}") } else { text };
        let padding = (width as usize).saturating_sub(text.chars().count());
        if flags.contains('-') {
            out.push_str(&text);
            out.extend(core::iter::repeat_n(' ', padding));
        } else if flags.contains('0') && kind != 's' && kind != 'r' {
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['-', '+'])));
            out.push_str(sign);
            out.extend(core::iter::repeat_n('0', padding));
            out.push_str(digits);
        } else {
            out.extend(core::iter::repeat_n(' ', padding));
            out.push_str(&text);
        }
    }
    match values.next() {
        Some(_) => Err("not all arguments converted during string formatting".into()),
        None => Ok(out),
    }
}

/// Widest field of a format.
const WIDTH_MAX: u32 = 200;

fn take_number(chars: &mut core::iter::Peekable<core::str::Chars<'_>>) -> Option<u32> {
    let mut number = None;
    while let Some(digit) = chars.next_if(char::is_ascii_digit).and_then(|c| c.to_digit(10)) {
        number =
            Some(number.unwrap_or(0_u32).saturating_mul(10).saturating_add(digit).min(WIDTH_MAX));
    }
    number
}

fn conversion(
    kind: char,
    value: &Value,
    places: Option<u32>,
    hash: bool,
) -> Result<String, String> {
    let need =
        |what: &str| format!("%{kind} format: {what} is required, not {}", value.type_name());
    let based = |prefix: &str, digits: &dyn Fn(u128) -> String| {
        let n = value.as_int().ok_or_else(|| need("an integer"))?;
        let sign = if n < 0 { "-" } else { "" };
        let prefix = if hash { prefix } else { "" };
        Ok(format!("{sign}{prefix}{}", digits(n.unsigned_abs())))
    };
    match kind {
        'd' | 'i' | 'u' => {
            let (num, den) = value.as_ratio().ok_or_else(|| need("a number"))?;
            // Towards zero; the denominator is positive.
            num.checked_div(den).map(|n| n.to_string()).ok_or_else(|| TOO_LARGE.into())
        }
        'x' => based("0x", &|n| format!("{n:x}")),
        'X' => based("0X", &|n| format!("{n:X}")),
        'o' => based("0o", &|n| format!("{n:o}")),
        's' | 'r' => {
            let text = if kind == 's' { value.to_string() } else { value.repr() };
            let places = places.map_or(usize::MAX, |places| places as usize);
            Ok(text.chars().take(places).collect())
        }
        'f' | 'F' => {
            if value.as_ratio().is_none() {
                return Err(need("a number"));
            }
            value.fixed(places.unwrap_or(6)).ok_or_else(|| TOO_LARGE.into())
        }
        'g' | 'G' | 'e' | 'E' if value.as_ratio().is_some() => Ok(value.to_string()),
        _ => Err(format!("unsupported format character '{kind}'")),
    }
}
