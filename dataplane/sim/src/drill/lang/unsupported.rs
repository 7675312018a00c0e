//! What a script asks for that cannot be done: by the language, or by whoever runs it.

use super::ast::{Action, Code, Command, Packet, Script, ScriptOption, Span, Syscall, Unsupported};
use super::options::Settings;
use super::python::{Expr, ExprKind, Stmt, StmtKind};
use super::shell;

/// What a runner can do. Each method answers for one construct with what is missing, in words;
/// a runner overrides what it cannot do in full.
pub trait Capabilities {
    /// An option.
    fn option(&self, _option: &ScriptOption) -> Result<(), String> {
        Ok(())
    }

    /// A packet.
    fn packet(&self, _packet: &Packet) -> Result<(), String> {
        Ok(())
    }

    /// A system call.
    fn syscall(&self, _call: &Syscall) -> Result<(), String> {
        Ok(())
    }

    /// A step of a shell command.
    fn step(&self, _step: &shell::Step) -> Result<(), String> {
        Ok(())
    }

    /// A name that a snippet reads and no snippet before it has assigned.
    fn variable(&self, _name: &str) -> Result<(), String> {
        Ok(())
    }
}

/// Somebody who can do all that the language can say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everything;

impl Capabilities for Everything {}

/// Everything in a script that is not supported, in the order of the file.
pub fn unsupported(script: &Script, capabilities: &dyn Capabilities) -> Vec<Unsupported> {
    let mut list = List { found: Vec::new(), capabilities, assigned: Vec::new() };
    for option in &script.options {
        list.note(option.span, capabilities.option(option));
        let mut settings = Settings::default();
        // A wrong option is an error, reported elsewhere.
        if settings.apply(&option.name, option.value.as_deref(), option.span).is_ok() {
            list.found.append(&mut settings.unsupported);
        }
    }
    script.init.iter().for_each(|command| list.command(command));
    for event in &script.events {
        match &event.action {
            Action::Packet(packet) => list.note(packet.span, capabilities.packet(packet)),
            Action::Syscall(call) => list.note(call.span, capabilities.syscall(call)),
            Action::Command(command) => list.command(command),
            Action::Code(code) => list.code(code),
        }
    }
    script.cleanup.iter().for_each(|command| list.command(command));
    list.found
}

struct List<'a> {
    found: Vec<Unsupported>,
    capabilities: &'a dyn Capabilities,
    /// Names that snippets have assigned so far.
    assigned: Vec<String>,
}

impl List<'_> {
    fn note(&mut self, span: Span, answer: Result<(), String>) {
        if let Err(what) = answer {
            self.found.push(Unsupported { what, span });
        }
    }

    fn command(&mut self, command: &Command) {
        for step in &command.steps {
            let span = Span::new(step.line, 1);
            match &step.action {
                shell::Action::Unsupported { text } => {
                    self.note(span, Err(format!("shell command '{text}'")));
                }
                _ => self.note(span, self.capabilities.step(step)),
            }
        }
    }

    fn code(&mut self, code: &Code) {
        self.block(&code.program.statements);
    }

    fn block(&mut self, statements: &[Stmt]) {
        for statement in statements {
            let span = Span::new(statement.line, 1);
            match &statement.kind {
                StmtKind::Assign { names, value } => {
                    self.expr(value);
                    self.assigned.extend(names.iter().cloned());
                }
                StmtKind::Update { name, value, .. } => {
                    self.name(span, name);
                    self.expr(value);
                }
                StmtKind::Assert { test, message } => {
                    self.expr(test);
                    message.iter().for_each(|message| self.expr(message));
                }
                StmtKind::Print(values) => values.iter().for_each(|value| self.expr(value)),
                StmtKind::Expression(value) => self.expr(value),
                StmtKind::If { branches, otherwise } => {
                    for (test, block) in branches {
                        self.expr(test);
                        self.block(block);
                    }
                    self.block(otherwise);
                }
                StmtKind::Pass => {}
                StmtKind::Unsupported(what) => self.note(span, Err(format!("Python's {what}"))),
            }
        }
    }

    fn name(&mut self, span: Span, name: &str) {
        if !self.assigned.iter().any(|assigned| assigned == name) {
            self.note(span, self.capabilities.variable(name));
        }
    }

    /// Walks an expression, whose depth the parser has bounded.
    fn expr(&mut self, expr: &Expr) {
        let span = Span::new(expr.line, 1);
        match &expr.kind {
            ExprKind::Constant(_) => {}
            ExprKind::Name(name) => self.name(span, name),
            ExprKind::Tuple(items)
            | ExprKind::And(items)
            | ExprKind::Or(items)
            | ExprKind::Call(_, items) => items.iter().for_each(|item| self.expr(item)),
            ExprKind::Unary(_, operand) => self.expr(operand),
            ExprKind::Binary(_, left, right) => {
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Compare(first, rest) => {
                self.expr(first);
                rest.iter().for_each(|(_, operand)| self.expr(operand));
            }
            ExprKind::Conditional { test, then, otherwise } => {
                [test, then, otherwise].into_iter().for_each(|part| self.expr(part));
            }
            ExprKind::Unsupported(what) => self.note(span, Err(format!("Python's {what}"))),
        }
    }
}
