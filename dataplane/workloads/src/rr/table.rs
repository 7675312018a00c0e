//! What an application knows about its connections, found by their ids.

use base::ConnId;

/// Entries that are allocated together: growing never moves what is there.
const PAGE: usize = 4096;

struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// Values by connection; a stale id finds nothing. One step per access, and no allocation but a page
/// when slots are used for the first time.
pub(crate) struct Table<T> {
    pages: Vec<Box<[Entry<T>]>>,
}

impl<T> Table<T> {
    /// Bytes that one connection takes here.
    pub(crate) const ENTRY_BYTES: usize = size_of::<Entry<T>>();

    pub(crate) const fn new() -> Self {
        Self { pages: Vec::new() }
    }

    pub(crate) fn insert(&mut self, conn: ConnId, value: T) {
        let slot = conn.slot as usize;
        while self.pages.len() <= slot / PAGE {
            let empty = || Entry { generation: 0, value: None };
            self.pages.push((0..PAGE).map(|_| empty()).collect());
        }
        if let Some(entry) = self.pages.get_mut(slot / PAGE).and_then(|p| p.get_mut(slot % PAGE)) {
            *entry = Entry { generation: conn.generation, value: Some(value) };
        }
    }

    pub(crate) fn get_mut(&mut self, conn: ConnId) -> Option<&mut T> {
        let slot = conn.slot as usize;
        let entry = self.pages.get_mut(slot / PAGE)?.get_mut(slot % PAGE)?;
        if entry.generation == conn.generation { entry.value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<T> {
        let slot = conn.slot as usize;
        let entry = self.pages.get_mut(slot / PAGE)?.get_mut(slot % PAGE)?;
        if entry.generation == conn.generation { entry.value.take() } else { None }
    }

    /// The first connection at or after `slot`: for walks that go on where they stopped.
    pub(crate) fn next_from(&self, slot: u32) -> Option<ConnId> {
        let mut skip = slot as usize % PAGE;
        for (page, entries) in self.pages.iter().enumerate().skip(slot as usize / PAGE) {
            let rest = entries.iter().enumerate().skip(core::mem::take(&mut skip));
            if let Some((index, entry)) = rest.into_iter().find(|(_, e)| e.value.is_some()) {
                let slot = (page * PAGE + index) as u32;
                return Some(ConnId { slot, generation: entry.generation });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_ids_find_nothing() {
        let mut table = Table::new();
        let (old, new) =
            (ConnId { slot: 5000, generation: 1 }, ConnId { slot: 5000, generation: 2 });
        assert_eq!(table.get_mut(old), None);
        table.insert(old, 'a');
        table.insert(new, 'b');
        assert_eq!(table.get_mut(old), None);
        assert_eq!(table.remove(old), None);
        assert_eq!(table.next_from(0), Some(new));
        assert_eq!(table.next_from(5001), None);
        assert_eq!(table.remove(new), Some('b'));
        assert_eq!(table.next_from(0), None);
    }
}
