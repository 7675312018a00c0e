//! The subset of Python that assertion snippets use.
//!
//! Integers are `i128` with an error on overflow; `/` and literals such as `12.5` give exact
//! fractions, so that no comparison ever depends on rounding. What is Python but not in the subset
//! parses to [`StmtKind::Unsupported`] or [`ExprKind::Unsupported`]; what is not Python at all is a
//! syntax error.

mod eval;
mod parse;
#[cfg(test)]
mod tests;
mod value;

pub use eval::{PyError, PyErrorKind, State, Variables};
pub use parse::{SyntaxError, parse};
pub use value::Value;

/// A snippet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Its statements, in order.
    pub statements: Vec<Stmt>,
}

/// A statement. Its line takes no part in comparisons.
#[derive(Clone, Debug, Eq)]
pub struct Stmt {
    /// Its line in the script, from one.
    pub line: u32,
    /// What it does.
    pub kind: StmtKind,
}

impl PartialEq for Stmt {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// The statements of the subset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StmtKind {
    /// `name = value`, also `a = b = value`.
    Assign {
        /// The names.
        names: Vec<String>,
        /// The value.
        value: Expr,
    },
    /// `name += value` and its relatives.
    Update {
        /// The name.
        name: String,
        /// The operator.
        op: BinaryOp,
        /// The value.
        value: Expr,
    },
    /// `assert test, message`.
    Assert {
        /// What must be true.
        test: Expr,
        /// What to say otherwise.
        message: Option<Expr>,
    },
    /// `print(a, b)`.
    Print(Vec<Expr>),
    /// `if`, `elif`, `else`.
    If {
        /// Conditions with their blocks.
        branches: Vec<(Expr, Vec<Stmt>)>,
        /// The block of `else`.
        otherwise: Vec<Stmt>,
    },
    /// An expression on its own.
    Expression(Expr),
    /// `pass`.
    Pass,
    /// Python that is not in the subset: its first word.
    Unsupported(String),
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    /// A constant.
    Constant(Value),
    /// A name.
    Name(String),
    /// `(a, b)`.
    Tuple(Vec<Expr>),
    /// `-a`, `+a`, `~a`, `not a`.
    Unary(UnaryOp, Box<Expr>),
    /// `a + b` and the like.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a < b <= c`: each operand is evaluated at most once.
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
    /// `a and b and c`.
    And(Vec<Expr>),
    /// `a or b or c`.
    Or(Vec<Expr>),
    /// `a if test else b`.
    Conditional {
        /// What is asked first.
        test: Box<Expr>,
        /// Its value when true.
        then: Box<Expr>,
        /// Its value when false.
        otherwise: Box<Expr>,
    },
    /// `abs(a)`, `min(a, b)` and the like.
    Call(Builtin, Vec<Expr>),
    /// Python that is not in the subset.
    Unsupported(String),
}

/// An expression with its line, which takes no part in comparisons.
#[derive(Clone, Debug, Eq)]
pub struct Expr {
    /// Its line in the script.
    pub line: u32,
    /// What it is.
    pub kind: ExprKind,
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Negate,
    /// `+`
    Plus,
    /// `~`
    Invert,
    /// `not`
    Not,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `//`
    FloorDivide,
    /// `%`, also formats.
    Modulo,
    /// `**`
    Power,
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `in`
    In,
    /// `not in`
    NotIn,
}

/// Functions of the subset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// `abs(a)`
    Abs,
    /// `min(a, b, …)`
    Min,
    /// `max(a, b, …)`
    Max,
    /// `int(a)`: towards zero.
    Int,
    /// `bool(a)`
    Bool,
    /// `str(a)`
    Str,
    /// `hex(a)`
    Hex,
    /// `round(a)`: to the nearest, halves to even.
    Round,
    /// `len(a)`
    Len,
    /// `float(a)`: an exact fraction here.
    Float,
}
