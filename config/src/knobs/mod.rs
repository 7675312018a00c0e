//! The knob table and its registry.
//!
//! A knob is one row. Names are those of Linux where Linux has the knob, so that scripts and
//! habits carry over, and begin with `millrace.` where it has not.

mod error;
mod kind;
mod registry;
mod table;

pub use error::KnobError;
pub use kind::{Kind, TextForm, Value};
pub use registry::{Change, Entry, Knobs, Source};
pub(crate) use table::SECTIONS;
pub use table::{find, table};

use stack::{Limits, StackParams};

use crate::Profile;

/// What a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A switch, a mode, a name: nothing to count.
    None,
    /// Bytes.
    Bytes,
    /// Pages of 4 KiB.
    Pages,
    /// Segments.
    Segments,
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Per cent.
    Percent,
    /// A count of whatever the name says.
    Count,
    /// Round trips.
    Rounds,
    /// A power of two.
    Shift,
    /// A ratio: one part in so many.
    Ratio,
    /// 256ths.
    Per256,
    /// 1024ths.
    Per1024,
    /// Events per second.
    PerSecond,
    /// Port numbers.
    Ports,
    /// Hops.
    Hops,
    /// Bits of a mask.
    Bits,
}

impl Unit {
    /// As written in lists; empty when there is nothing to say.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bytes => "bytes",
            Self::Pages => "4-KiB pages",
            Self::Segments => "segments",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Percent => "%",
            Self::Count => "count",
            Self::Rounds => "round trips",
            Self::Shift => "shift",
            Self::Ratio => "ratio",
            Self::Per256 => "1/256",
            Self::Per1024 => "1/1024",
            Self::PerSecond => "per second",
            Self::Ports => "port",
            Self::Hops => "hops",
            Self::Bits => "bit mask",
        }
    }
}

/// When a new value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Applies {
    /// Only when the dataplane starts: tables have their size then.
    AtStart,
    /// For connections that are opened or accepted from now on.
    NewConnections,
    /// At the next decision that asks for it, in existing connections too.
    EachUse,
}

impl Applies {
    /// As written in lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AtStart => "at start",
            Self::NewConnections => "new connections",
            Self::EachUse => "each use",
        }
    }
}

/// What a value does.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// Sets a parameter of running stacks.
    Params {
        /// Put a checked value into the parameters.
        set: fn(&mut StackParams, &Value),
        /// The value that the parameters have.
        get: fn(&StackParams) -> Value,
    },
    /// Sets a bound of the tables, fixed from the start.
    Limits {
        /// Put a checked value into the limits.
        set: fn(&mut Limits, &Value),
        /// The value that the limits have.
        get: fn(&Limits) -> Value,
    },
    /// Accepted, checked and kept, so that files written for Linux can be used as they are; nothing
    /// reads the value.
    Stored,
    /// Tells something, cannot be set.
    ReadOnly,
}

impl Effect {
    /// As written in lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Params { .. } | Self::Limits { .. } => "active",
            Self::Stored => "stored",
            Self::ReadOnly => "read only",
        }
    }

    /// Whether a value changes what the dataplane does.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Params { .. } | Self::Limits { .. })
    }
}

/// A default as a constant of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// A number or a switch.
    Int(i64),
    /// Several numbers.
    Vector(&'static [i64]),
    /// A name or a list.
    Text(&'static str),
}

impl Preset {
    fn value(self) -> Value {
        match self {
            Self::Int(n) => Value::Int(n),
            Self::Vector(n) => Value::vector(n),
            Self::Text(t) => Value::Text(t.into()),
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Full dotted name.
    pub name: &'static str,
    /// Type and range.
    pub kind: Kind,
    /// What the number means.
    pub unit: Unit,
    /// Default of the profile `linux`.
    pub linux: Preset,
    /// Default of the profile `millrace`.
    pub millrace: Preset,
    /// When a new value takes effect.
    pub applies: Applies,
    /// What a value does.
    pub effect: Effect,
    /// What it does, why the default is what it is, what goes wrong at both ends.
    pub doc: &'static str,
}

impl Knob {
    /// The default in `profile`.
    pub fn default_value(&self, profile: Profile) -> Value {
        match profile {
            Profile::Linux => self.linux.value(),
            Profile::Millrace => self.millrace.value(),
        }
    }

    /// The part of the name after the last dot.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Whether Linux has a knob of this name.
    pub fn is_linux(&self) -> bool {
        !self.name.starts_with("millrace.")
    }
}

/// Builders for rows, so that a row reads as one sentence.
impl Knob {
    const fn row(name: &'static str, kind: Kind, default: Preset, doc: &'static str) -> Self {
        Self {
            name,
            kind,
            unit: Unit::None,
            linux: default,
            millrace: default,
            applies: Applies::EachUse,
            effect: Effect::Stored,
            doc,
        }
    }

    const fn switch(name: &'static str, default: i64, doc: &'static str) -> Self {
        Self::row(name, Kind::Bool, Preset::Int(default), doc)
    }

    const fn int(
        name: &'static str,
        min: i64,
        max: i64,
        default: i64,
        unit: Unit,
        doc: &'static str,
    ) -> Self {
        Self::row(name, Kind::Int { min, max }, Preset::Int(default), doc).unit(unit)
    }

    const fn vector(
        name: &'static str,
        min: i64,
        max: i64,
        default: &'static [i64],
        unit: Unit,
        doc: &'static str,
    ) -> Self {
        let kind = Kind::Vector { len: default.len(), min, max, ordered: true };
        Self::row(name, kind, Preset::Vector(default), doc).unit(unit)
    }

    const fn choice(
        name: &'static str,
        names: &'static [&'static str],
        default: &'static str,
        doc: &'static str,
    ) -> Self {
        Self::row(name, Kind::Choice(names), Preset::Text(default), doc)
    }

    const fn text(
        name: &'static str,
        form: TextForm,
        default: &'static str,
        doc: &'static str,
    ) -> Self {
        Self::row(name, Kind::Text(form), Preset::Text(default), doc)
    }

    const fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// The default of the profile `millrace`, where it is another one.
    const fn millrace(mut self, default: Preset) -> Self {
        self.millrace = default;
        self
    }

    const fn new_connections(mut self) -> Self {
        self.applies = Applies::NewConnections;
        self
    }

    const fn active(
        mut self,
        set: fn(&mut StackParams, &Value),
        get: fn(&StackParams) -> Value,
    ) -> Self {
        self.effect = Effect::Params { set, get };
        self
    }

    const fn limit(mut self, set: fn(&mut Limits, &Value), get: fn(&Limits) -> Value) -> Self {
        self.applies = Applies::AtStart;
        self.effect = Effect::Limits { set, get };
        self
    }

    const fn read_only(mut self) -> Self {
        self.effect = Effect::ReadOnly;
        self
    }
}

#[cfg(test)]
mod tests;
