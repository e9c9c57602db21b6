//! The names of functions: linkage names or, without one that can be read, names in the source with the namespaces, types and functions
//! around them.

use std::borrow::Cow;

use gimli::constants as dw;

use crate::abbreviations::Kind;
use crate::limits::{MAX_REFERENCES, MAX_SCOPES, Work};
use crate::names::{Context, Description, EntryRef};
use crate::texts::{TextId, Texts};
use crate::view::small;

/// A longer name is not qualified.
const MAX_QUALIFIED: usize = 64 << 10;
const UNNAMED_NAMESPACE: &str = "(anonymous namespace)";

/// What is known of the function that an entry is about.
pub(crate) fn describe(
    context: &mut Context<'_>,
    entry: EntryRef,
    texts: &mut Texts,
    work: &mut Work,
) -> Description {
    if let Some(known) = context.recent(entry) {
        return known;
    }
    let described = search(context, entry, texts, work);
    context.remember(entry, described);
    described
}

fn search(context: &mut Context<'_>, entry: EntryRef, texts: &mut Texts, work: &mut Work) -> Description {
    let (mut line, mut linkage_name, mut named) = (0, None, None);
    let mut next = Some(entry);
    for _ in 0..MAX_REFERENCES {
        let Some(entry) = next else { break };
        let Some(read) = context.entry(entry, texts, work) else { break };
        line = if line == 0 { read.line } else { line };
        named = named.or(read.name.map(|name| (entry, name)));
        linkage_name = linkage_name.or(read.linkage_name);
        next = read.origin;
        if linkage_name.is_some_and(|(_, is_readable)| is_readable) {
            next = next.filter(|_| line == 0);
        }
    }
    let name = match linkage_name {
        Some((name, true)) => Some(name),
        _ => {
            let named = named.and_then(|(entry, name)| qualified(context, entry, name, texts, work));
            named.or(linkage_name.map(|(name, _)| name))
        }
    };
    Description { name, line }
}

/// The name of the function that an entry names, qualified. Languages without namespaces have no scopes in their units.
fn qualified<'a>(
    context: &mut Context<'a>,
    entry: EntryRef,
    name: &'a [u8],
    texts: &mut Texts,
    work: &mut Work,
) -> Option<TextId> {
    let mut parts = vec![Cow::Borrowed(name)];
    let mut length = name.len();
    if context.view_of(entry, work).is_some_and(|view| view.root.has_scopes) {
        // A function may be named elsewhere: then the scopes around its name follow.
        let mut next = Some(entry);
        while let Some(entry) = next.take()
            && parts.len() < MAX_SCOPES
        {
            let Some(view) = context.view_of(entry, work) else { break };
            let around = context.scopes(entry.place, &view, work).around(&view, entry.at, work);
            for at in around {
                let scope = EntryRef { place: entry.place, at };
                let Some((named, part)) = named(context, scope, work) else { break };
                length += 2 + part.len();
                parts.push(part);
                if length > MAX_QUALIFIED {
                    return texts.enter(name);
                }
                if named != scope {
                    next = Some(named);
                    break;
                }
            }
        }
    }
    parts.reverse();
    texts.enter(&parts.join(&b"::"[..]))
}

/// The entry that has the name of a scope, and the name. A scope without a name gets its line instead.
fn named<'a>(
    context: &mut Context<'a>,
    scope: EntryRef,
    work: &mut Work,
) -> Option<(EntryRef, Cow<'a, [u8]>)> {
    let (mut kind, mut line) = (None, 0);
    let mut next = Some(scope);
    for _ in 0..MAX_REFERENCES {
        let Some(entry) = next.take() else { break };
        let view = context.view_of(entry, work)?;
        let mut at = entry.at;
        let shape = view.shape(&mut at)??;
        kind.get_or_insert(shape.kind);
        let mut name = None;
        view.attributes(shape, &mut at, work, |attribute, value| match attribute {
            dw::DW_AT_name => name = Some(value),
            dw::DW_AT_decl_line if line == 0 => line = small(value),
            dw::DW_AT_abstract_origin | dw::DW_AT_specification => {
                next = EntryRef::of(value, entry, view.head.start);
            }
            _ => {}
        })?;
        if let Some(name) = name.and_then(|name| view.string(name)) {
            return Some((entry, Cow::Borrowed(name.slice())));
        }
    }
    let told = match kind? {
        Kind::Namespace => UNNAMED_NAMESPACE.to_owned(),
        _ => format!("(anonymous, line {line})"),
    };
    Some((scope, Cow::Owned(told.into_bytes())))
}
