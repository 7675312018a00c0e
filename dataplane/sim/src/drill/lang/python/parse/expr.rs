//! Expressions, from the loosest operator to the tightest.

use super::scan::Kind;
use super::{Parsed, Parser, binary_op, expr_at};
use crate::drill::lang::python::{Builtin, CompareOp, Expr, ExprKind, UnaryOp, Value};

/// Operators with two operands by precedence, loosest first; all associate to the left.
const LEVELS: &[&[&str]] =
    &[&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "//", "%"]];

/// Operators in a row without a bracket; a longer chain would make too deep a tree.
const CHAIN_MAX: u32 = 200;

/// Words that no expression can begin with.
const KEYWORDS: &[&str] = &[
    "and", "as", "assert", "elif", "else", "except", "finally", "if", "in", "is", "or", "pass",
    "for", "while", "return", "import",
];

impl Parser {
    /// An expression, or several with commas, which make a tuple.
    pub(super) fn tuple(&mut self) -> Parsed<Expr> {
        let line = self.line();
        let first = self.expr()?;
        if !self.is_op(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.eat_op(",") {
            if matches!(self.kind(), Kind::Newline | Kind::End | Kind::Op(")" | "=" | ";")) {
                break;
            }
            items.push(self.expr()?);
        }
        Ok(expr_at(line, ExprKind::Tuple(items)))
    }

    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.enter()?;
        let line = self.line();
        if self.is_name("lambda") {
            while !matches!(self.kind(), Kind::Newline | Kind::End | Kind::Op(")" | ",")) {
                self.advance();
            }
            self.leave();
            return Ok(expr_at(line, ExprKind::Unsupported("lambda".into())));
        }
        let then = self.or_test()?;
        let expr = if self.eat_name("if") {
            let test = Box::new(self.or_test()?);
            if !self.eat_name("else") {
                return self.expected("'else'");
            }
            let (then, otherwise) = (Box::new(then), Box::new(self.expr()?));
            expr_at(line, ExprKind::Conditional { test, then, otherwise })
        } else {
            then
        };
        self.leave();
        Ok(expr)
    }

    fn or_test(&mut self) -> Parsed<Expr> {
        let line = self.line();
        let first = self.and_test()?;
        if !self.is_name("or") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.eat_name("or") {
            operands.push(self.and_test()?);
        }
        Ok(expr_at(line, ExprKind::Or(operands)))
    }

    fn and_test(&mut self) -> Parsed<Expr> {
        let line = self.line();
        let first = self.not_test()?;
        if !self.is_name("and") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.eat_name("and") {
            operands.push(self.not_test()?);
        }
        Ok(expr_at(line, ExprKind::And(operands)))
    }

    fn not_test(&mut self) -> Parsed<Expr> {
        let line = self.line();
        if !self.eat_name("not") {
            return self.comparison();
        }
        self.enter()?;
        let operand = self.not_test()?;
        self.leave();
        Ok(expr_at(line, ExprKind::Unary(UnaryOp::Not, Box::new(operand))))
    }

    fn comparison(&mut self) -> Parsed<Expr> {
        let line = self.line();
        let first = self.level(0)?;
        let mut rest = Vec::new();
        while let Some(op) = self.compare_op() {
            rest.push((op, self.level(0)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(expr_at(line, ExprKind::Compare(Box::new(first), rest)))
    }

    fn compare_op(&mut self) -> Option<CompareOp> {
        let (op, lexemes) = match self.kind() {
            Kind::Op("==") => (CompareOp::Equal, 1),
            Kind::Op("!=") => (CompareOp::NotEqual, 1),
            Kind::Op("<") => (CompareOp::Less, 1),
            Kind::Op("<=") => (CompareOp::LessOrEqual, 1),
            Kind::Op(">") => (CompareOp::Greater, 1),
            Kind::Op(">=") => (CompareOp::GreaterOrEqual, 1),
            Kind::Name(name) if name == "in" => (CompareOp::In, 1),
            Kind::Name(name) if name == "not" => match self.kind_at(1) {
                Kind::Name(name) if name == "in" => (CompareOp::NotIn, 2),
                _ => return None,
            },
            _ => return None,
        };
        (0..lexemes).for_each(|_| self.advance());
        Some(op)
    }

    fn level(&mut self, level: usize) -> Parsed<Expr> {
        let Some(ops) = LEVELS.get(level) else { return self.unary() };
        let line = self.line();
        let mut left = self.level(level.saturating_add(1))?;
        let mut chain = 0_u32;
        while let Kind::Op(op) = self.kind() {
            let Some(op) = binary_op(op).filter(|_| ops.contains(op)) else { break };
            chain = chain.saturating_add(1);
            if chain > CHAIN_MAX {
                return self.expected("fewer operators in a row");
            }
            self.advance();
            let right = self.level(level.saturating_add(1))?;
            left = expr_at(line, ExprKind::Binary(op, Box::new(left), Box::new(right)));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let line = self.line();
        let op = match self.kind() {
            Kind::Op("-") => UnaryOp::Negate,
            Kind::Op("+") => UnaryOp::Plus,
            Kind::Op("~") => UnaryOp::Invert,
            _ => return self.power(),
        };
        self.advance();
        self.enter()?;
        let operand = self.unary()?;
        self.leave();
        Ok(expr_at(line, ExprKind::Unary(op, Box::new(operand))))
    }

    fn power(&mut self) -> Parsed<Expr> {
        let line = self.line();
        let base = self.postfix()?;
        if !self.eat_op("**") {
            return Ok(base);
        }
        self.enter()?;
        let exponent = self.unary()?;
        self.leave();
        let op = super::BinaryOp::Power;
        Ok(expr_at(line, ExprKind::Binary(op, Box::new(base), Box::new(exponent))))
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let mut expr = self.atom()?;
        loop {
            let line = self.line();
            let what = if self.eat_op("(") {
                let arguments = self.arguments()?;
                let ExprKind::Name(name) = &expr.kind else {
                    return Ok(expr_at(
                        line,
                        ExprKind::Unsupported("call of an expression".into()),
                    ));
                };
                match builtin(name) {
                    Some(function) => {
                        expr = expr_at(line, ExprKind::Call(function, arguments));
                        continue;
                    }
                    None => format!("function '{name}'"),
                }
            } else if self.eat_op("[") {
                while !self.is_op("]") {
                    if !self.eat_op(":") {
                        self.tuple()?;
                    }
                }
                self.advance();
                "index".into()
            } else if self.eat_op(".") {
                let Kind::Name(name) = self.kind() else { return self.expected("a name") };
                let what = format!("attribute '.{name}'");
                self.advance();
                what
            } else {
                return Ok(expr);
            };
            expr = expr_at(line, ExprKind::Unsupported(what));
        }
    }

    /// What follows `(` of a call.
    pub(super) fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let mut arguments = Vec::new();
        while !self.eat_op(")") {
            let line = self.line();
            let named = matches!(self.kind(), Kind::Name(_)) && *self.kind_at(1) == Kind::Op("=");
            if named || self.is_op("*") || self.is_op("**") {
                self.advance();
                self.eat_op("=");
                self.expr()?;
                let what = "named argument".into();
                arguments.push(expr_at(line, ExprKind::Unsupported(what)));
            } else {
                arguments.push(self.expr()?);
            }
            if !self.is_op(")") && !self.eat_op(",") {
                return self.expected("',' or ')'");
            }
        }
        Ok(arguments)
    }

    fn atom(&mut self) -> Parsed<Expr> {
        let line = self.line();
        let kind = match self.kind().clone() {
            Kind::Constant(Value::Text(text)) => {
                self.advance();
                let mut text = text;
                // Neighbours are one string.
                while let Kind::Constant(Value::Text(more)) = self.kind() {
                    text.push_str(more);
                    self.advance();
                }
                ExprKind::Constant(Value::Text(text))
            }
            Kind::Constant(value) => {
                self.advance();
                ExprKind::Constant(value)
            }
            Kind::Name(name) => {
                if KEYWORDS.contains(&name.as_str()) {
                    return self.expected("an expression");
                }
                self.advance();
                match name.as_str() {
                    "True" => ExprKind::Constant(Value::Bool(true)),
                    "False" => ExprKind::Constant(Value::Bool(false)),
                    "None" => ExprKind::Constant(Value::None),
                    // `f'…'` and its relatives.
                    _ if matches!(self.kind(), Kind::Constant(Value::Text(_))) => {
                        self.advance();
                        ExprKind::Unsupported(format!("string with prefix '{name}'"))
                    }
                    _ => ExprKind::Name(name),
                }
            }
            Kind::Op("(") => {
                self.advance();
                if self.eat_op(")") {
                    return Ok(expr_at(line, ExprKind::Tuple(Vec::new())));
                }
                let inner = self.tuple()?;
                self.expect_op(")")?;
                return Ok(inner);
            }
            Kind::Op(open @ ("[" | "{")) => {
                let close = if open == "[" { "]" } else { "}" };
                self.advance();
                while !self.eat_op(close) {
                    if !self.eat_op(":") && !self.eat_op(",") {
                        self.expr()?;
                    }
                }
                ExprKind::Unsupported(if open == "[" { "list".into() } else { "dictionary".into() })
            }
            _ => return self.expected("an expression"),
        };
        Ok(expr_at(line, kind))
    }
}

fn builtin(name: &str) -> Option<Builtin> {
    Some(match name {
        "abs" => Builtin::Abs,
        "min" => Builtin::Min,
        "max" => Builtin::Max,
        "int" => Builtin::Int,
        "bool" => Builtin::Bool,
        "str" => Builtin::Str,
        "hex" => Builtin::Hex,
        "round" => Builtin::Round,
        "len" => Builtin::Len,
        "float" => Builtin::Float,
        _ => return None,
    })
}
