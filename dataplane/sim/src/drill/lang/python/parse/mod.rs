//! Text of a snippet to its tree.

mod expr;
mod scan;

use self::scan::{Kind, Lexeme, scan};
use super::{BinaryOp, Expr, ExprKind, Program, Stmt, StmtKind};

/// Deepest nesting of expressions and of blocks.
pub(super) const DEPTH_MAX: u32 = 48;

/// A snippet that is not Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line in the script.
    pub line: u32,
    /// What is wrong.
    pub message: String,
}

type Parsed<T> = Result<T, SyntaxError>;

/// Statements of Python that are not in the subset.
const OTHER_STATEMENTS: &[&str] = &[
    "async", "await", "break", "class", "continue", "def", "del", "for", "from", "global",
    "import", "lambda", "match", "nonlocal", "raise", "return", "try", "while", "with", "yield",
];

/// Parses a snippet whose text begins in `line` of a script. Blanks around it do not count as
/// indentation.
pub fn parse(text: &str, line: u32) -> Result<Program, SyntaxError> {
    let lexemes = scan(text.trim_start_matches([' ', '\t']), line)?;
    let mut parser = Parser { lexemes, at: 0, depth: 0 };
    let mut statements = Vec::new();
    while *parser.kind() != Kind::End {
        parser.statement(&mut statements)?;
    }
    Ok(Program { statements })
}

struct Parser {
    /// Never empty: the last one is [`Kind::End`].
    lexemes: Vec<Lexeme>,
    at: usize,
    depth: u32,
}

impl Parser {
    fn kind_at(&self, ahead: usize) -> &Kind {
        self.lexemes.get(self.at.saturating_add(ahead)).map_or(&Kind::End, |lexeme| &lexeme.kind)
    }

    fn kind(&self) -> &Kind {
        self.kind_at(0)
    }

    fn line(&self) -> u32 {
        self.lexemes.get(self.at).or(self.lexemes.last()).map_or(0, |lexeme| lexeme.line)
    }

    fn advance(&mut self) {
        self.at = self.at.saturating_add(1).min(self.lexemes.len().saturating_sub(1));
    }

    fn is_op(&self, op: &str) -> bool {
        matches!(self.kind(), Kind::Op(found) if *found == op)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.kind(), Kind::Name(found) if found == name)
    }

    fn eat_op(&mut self, op: &str) -> bool {
        let found = self.is_op(op);
        if found {
            self.advance();
        }
        found
    }

    fn eat_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        if found {
            self.advance();
        }
        found
    }

    fn expected<T>(&self, what: &str) -> Parsed<T> {
        let message = format!("Python: expected {what}, found {}", self.kind().describe());
        Err(SyntaxError { line: self.line(), message })
    }

    fn expect_op(&mut self, op: &str) -> Parsed<()> {
        if self.eat_op(op) { Ok(()) } else { self.expected(&format!("'{op}'")) }
    }

    /// Goes one level deeper, or refuses.
    fn enter(&mut self) -> Parsed<()> {
        if self.depth >= DEPTH_MAX {
            let message = format!("Python: nested more than {DEPTH_MAX} deep");
            return Err(SyntaxError { line: self.line(), message });
        }
        self.depth = self.depth.saturating_add(1);
        Ok(())
    }

    const fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// One logical line, or a compound statement.
    fn statement(&mut self, out: &mut Vec<Stmt>) -> Parsed<()> {
        let line = self.line();
        if self.eat_name("if") {
            self.enter()?;
            let kind = self.if_statement()?;
            self.leave();
            out.push(Stmt { line, kind });
            return Ok(());
        }
        if let Kind::Name(word) = self.kind()
            && OTHER_STATEMENTS.contains(&word.as_str())
            // `match` is a name, too.
            && !matches!(self.kind_at(1), Kind::Op("=" | "+=" | "-="))
        {
            let what = format!("'{word}'");
            self.skip_statement();
            out.push(Stmt { line, kind: StmtKind::Unsupported(what) });
            return Ok(());
        }
        self.simple_line(out)
    }

    /// Statements on one line, separated by `;`.
    fn simple_line(&mut self, out: &mut Vec<Stmt>) -> Parsed<()> {
        loop {
            let line = self.line();
            let kind = self.simple()?;
            out.push(Stmt { line, kind });
            let more = self.eat_op(";");
            if *self.kind() == Kind::Newline {
                self.advance();
                return Ok(());
            }
            if *self.kind() == Kind::End {
                return Ok(());
            }
            if !more {
                return self.expected("';' or the end of the line");
            }
        }
    }

    fn simple(&mut self) -> Parsed<StmtKind> {
        if self.eat_name("pass") {
            return Ok(StmtKind::Pass);
        }
        if self.eat_name("assert") {
            let test = self.expr()?;
            let message = if self.eat_op(",") { Some(self.expr()?) } else { None };
            return Ok(StmtKind::Assert { test, message });
        }
        if self.is_name("print") && *self.kind_at(1) == Kind::Op("(") {
            self.advance();
            self.advance();
            return Ok(StmtKind::Print(self.arguments()?));
        }
        let value = self.tuple()?;
        if let Kind::Op(op) = self.kind()
            && let Some(op) = op.strip_suffix('=').and_then(binary_op)
        {
            let ExprKind::Name(name) = value.kind else {
                return self.expected("a name before it");
            };
            self.advance();
            return Ok(StmtKind::Update { name, op, value: self.tuple()? });
        }
        let (mut names, mut value) = (Vec::new(), value);
        while self.is_op("=") {
            match value.kind {
                ExprKind::Name(name) => names.push(name),
                ExprKind::Tuple(_) | ExprKind::Unsupported(_) => {
                    self.advance();
                    self.tuple()?;
                    return Ok(StmtKind::Unsupported("assignment to more than one name".into()));
                }
                _ => return self.expected("a name before '='"),
            }
            self.advance();
            value = self.tuple()?;
        }
        Ok(if names.is_empty() {
            StmtKind::Expression(value)
        } else {
            StmtKind::Assign { names, value }
        })
    }

    fn if_statement(&mut self) -> Parsed<StmtKind> {
        let mut branches = vec![(self.expr()?, self.block()?)];
        loop {
            if self.eat_name("elif") {
                branches.push((self.expr()?, self.block()?));
            } else if self.eat_name("else") {
                return Ok(StmtKind::If { branches, otherwise: self.block()? });
            } else {
                return Ok(StmtKind::If { branches, otherwise: Vec::new() });
            }
        }
    }

    /// `: statements` on the same line, or an indented block.
    fn block(&mut self) -> Parsed<Vec<Stmt>> {
        self.expect_op(":")?;
        let mut statements = Vec::new();
        if *self.kind() != Kind::Newline {
            self.simple_line(&mut statements)?;
            return Ok(statements);
        }
        self.advance();
        if *self.kind() != Kind::Indent {
            return self.expected("an indented block");
        }
        self.advance();
        while !matches!(self.kind(), Kind::Dedent | Kind::End) {
            self.statement(&mut statements)?;
        }
        if *self.kind() == Kind::Dedent {
            self.advance();
        }
        Ok(statements)
    }

    /// Leaves out a line with the block below it.
    fn skip_statement(&mut self) {
        while !matches!(self.kind(), Kind::Newline | Kind::End) {
            self.advance();
        }
        if *self.kind() == Kind::Newline {
            self.advance();
        }
        let mut depth = 0_u32;
        loop {
            match self.kind() {
                Kind::Indent => depth = depth.saturating_add(1),
                Kind::Dedent if depth == 1 => {
                    self.advance();
                    return;
                }
                Kind::Dedent => depth = depth.saturating_sub(1),
                Kind::End => return,
                _ if depth == 0 => return,
                _ => {}
            }
            self.advance();
        }
    }
}

/// The operator of two operands with this spelling.
fn binary_op(text: &str) -> Option<BinaryOp> {
    Some(match text {
        "+" => BinaryOp::Add,
        "-" => BinaryOp::Subtract,
        "*" => BinaryOp::Multiply,
        "/" => BinaryOp::Divide,
        "//" => BinaryOp::FloorDivide,
        "%" => BinaryOp::Modulo,
        "**" => BinaryOp::Power,
        "&" => BinaryOp::And,
        "|" => BinaryOp::Or,
        "^" => BinaryOp::Xor,
        "<<" => BinaryOp::ShiftLeft,
        ">>" => BinaryOp::ShiftRight,
        _ => return None,
    })
}

const fn expr_at(line: u32, kind: ExprKind) -> Expr {
    Expr { line, kind }
}
