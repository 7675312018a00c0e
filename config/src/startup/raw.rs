//! What a person wrote: the start-up file or the flags, typed but not yet understood.
//!
//! Every value knows where it stands, so that a later fault can be pointed at.

use core::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

use crate::error::Place;

/// A value and where it was written.
#[derive(Clone, Debug, Default)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) at: Place,
}

impl<T> Located<T> {
    pub(super) fn flag(value: T, flag: &'static str) -> Self {
        Self { value, at: Place::Flag(flag) }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(deserializer)?;
        Ok(Self { at: Place::Span(spanned.span()), value: spanned.into_inner() })
    }
}

/// The whole file.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStartup {
    pub(super) instance: Option<Located<String>>,
    pub(super) profile: Option<Located<String>>,
    #[serde(default)]
    pub(super) dataplane: RawDataplane,
    #[serde(default, rename = "port")]
    pub(super) ports: Vec<Located<RawPort>>,
    #[serde(default)]
    pub(super) limits: RawLimits,
    #[serde(default)]
    pub(super) sysctl: Assignments,
    #[serde(default, rename = "app")]
    pub(super) apps: Vec<Located<RawApp>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDataplane {
    pub(super) cores: Option<Located<Cores>>,
    pub(super) idle: Option<Located<String>>,
    pub(super) memory: Option<Located<Scalar>>,
    pub(super) hugepages: Option<Located<bool>>,
    pub(super) stop_limit: Option<Located<Scalar>>,
    pub(super) control: Option<bool>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPort {
    pub(super) vdev: Option<Located<String>>,
    pub(super) pci: Option<Located<String>>,
    pub(super) addresses: Option<OneOrMany>,
    pub(super) gateway: Option<OneOrMany>,
    pub(super) mtu: Option<Located<i64>>,
    pub(super) queues: Option<Located<i64>>,
    pub(super) rx_checksum: Option<Located<String>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    pub(super) connections: Option<Located<i64>>,
    pub(super) half_open: Option<Located<i64>>,
    pub(super) time_wait: Option<Located<i64>>,
    pub(super) neighbors: Option<Located<i64>>,
    pub(super) listeners: Option<Located<i64>>,
    pub(super) fragments: Option<Located<i64>>,
    pub(super) buffers: Option<Located<i64>>,
}

/// One application: the keys of all kinds. Which of them belong to the kind is seen later, because
/// an enum with a tag would lose the places of its values.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawApp {
    pub(super) kind: Option<Located<String>>,
    pub(super) port: Option<Located<i64>>,
    pub(super) bind: Option<Located<String>>,
    pub(super) one_off: Option<Located<bool>>,
    pub(super) idle_timeout: Option<Located<Scalar>>,
}

/// A whole number or a text with a unit.
#[derive(Clone, Debug)]
pub(super) enum Scalar {
    Number(i64),
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Text(t) => t.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or a text such as \"256MiB\" or \"5s\"")
            }

            fn visit_i64<E>(self, n: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(n))
            }

            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.into()))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

/// Cores as a list, or as a text: `auto`, or a list as EAL takes it.
#[derive(Clone, Debug)]
pub(super) enum Cores {
    List(Vec<i64>),
    Text(String),
}

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CoresVisitor;
        impl<'de> Visitor<'de> for CoresVisitor {
            type Value = Cores;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\", a list such as [1, 2], or a text such as \"1-3\"")
            }

            fn visit_str<E>(self, text: &str) -> Result<Cores, E> {
                Ok(Cores::Text(text.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Cores, A::Error> {
                let mut list = Vec::new();
                while let Some(core) = seq.next_element()? {
                    list.push(core);
                }
                Ok(Cores::List(list))
            }
        }
        deserializer.deserialize_any(CoresVisitor)
    }
}

/// A text, or a list of them.
#[derive(Debug, Default)]
pub(super) struct OneOrMany(pub(super) Vec<Located<String>>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrManyVisitor;
        impl<'de> Visitor<'de> for OneOrManyVisitor {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E>(self, text: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany(vec![Located { value: text.into(), at: Place::Nowhere }]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMany, A::Error> {
                let mut list = Vec::new();
                while let Some(text) = seq.next_element()? {
                    list.push(text);
                }
                Ok(OneOrMany(list))
            }
        }
        let spanned = Spanned::<Inner>::deserialize(deserializer)?;
        struct Inner(OneOrMany);
        impl<'de> Deserialize<'de> for Inner {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(OneOrManyVisitor).map(Self)
            }
        }
        let span = spanned.span();
        let mut list = spanned.into_inner().0;
        for text in &mut list.0 {
            if text.at == Place::Nowhere {
                text.at = Place::Span(span.clone());
            }
        }
        Ok(list)
    }
}

/// Knobs with their values, in any order. A name may be quoted, or written with bare dots, which
/// TOML takes for tables within tables; both mean the same.
#[derive(Debug, Default)]
pub(super) struct Assignments(pub(super) Vec<Assignment>);

/// One knob and its value as text.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) name: Located<String>,
    pub(super) value: Located<String>,
}

/// What may stand behind a knob's name or a part of it.
enum Node {
    Value(String),
    Table(Vec<(Located<String>, Located<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NodeVisitor;
        impl<'de> Visitor<'de> for NodeVisitor {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, a text, true or false, or a list of whole numbers")
            }

            fn visit_i64<E>(self, n: i64) -> Result<Node, E> {
                Ok(Node::Value(n.to_string()))
            }

            fn visit_bool<E>(self, on: bool) -> Result<Node, E> {
                Ok(Node::Value(u8::from(on).to_string()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Node, E> {
                Ok(Node::Value(text.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
                let mut numbers = Vec::new();
                while let Some(n) = seq.next_element::<i64>()? {
                    numbers.push(n.to_string());
                }
                Ok(Node::Value(numbers.join(" ")))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Node::Table(entries))
            }
        }
        deserializer.deserialize_any(NodeVisitor)
    }
}

impl<'de> Deserialize<'de> for Assignments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut out = Vec::new();
        match Node::deserialize(deserializer)? {
            Node::Table(entries) => flatten("", entries, &mut out),
            Node::Value(_) => {
                return Err(serde::de::Error::custom("expected a table of knobs: [sysctl]"));
            }
        }
        Ok(Self(out))
    }
}

/// Tables within tables are as deep as the parser allows, which bounds this recursion.
fn flatten(
    prefix: &str,
    entries: Vec<(Located<String>, Located<Node>)>,
    out: &mut Vec<Assignment>,
) {
    for (key, node) in entries {
        let name = if prefix.is_empty() { key.value } else { format!("{prefix}.{}", key.value) };
        match node.value {
            Node::Value(value) => out.push(Assignment {
                name: Located { value: name, at: key.at },
                value: Located { value, at: node.at },
            }),
            Node::Table(entries) => flatten(&name, entries, out),
        }
    }
}
