//! What is in a file: pages, of which those that hold nothing are not there.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::PAGE;

#[derive(Clone, Default)]
pub(super) struct Image {
    pub(super) len: u64,
    /// When it was changed last, in microseconds since 1970.
    pub(super) modified_micros: i64,
    /// Pages that are not there hold zeros.
    pub(super) pages: BTreeMap<u64, Rc<[u8; PAGE as usize]>>,
}

impl Image {
    pub(super) fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let end = offset.saturating_add(len).min(self.len);
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        let mut at = offset;
        while at < end {
            let (page, within) = (at / PAGE, (at % PAGE) as usize);
            let count = (PAGE - at % PAGE).min(end - at) as usize;
            if let Some(page) = self.pages.get(&page) {
                let to = (at - offset) as usize;
                bytes[to..to + count].copy_from_slice(&page[within..within + count]);
            }
            at += count as u64;
        }
        bytes
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8], mut touched: impl FnMut(u64)) {
        let mut written = 0;
        while written < bytes.len() {
            let at = offset + written as u64;
            let within = (at % PAGE) as usize;
            let count = (PAGE as usize - within).min(bytes.len() - written);
            let page = self
                .pages
                .entry(at / PAGE)
                .or_insert_with(|| Rc::new([0; PAGE as usize]));
            Rc::make_mut(page)[within..within + count]
                .copy_from_slice(&bytes[written..written + count]);
            touched(at / PAGE);
            written += count;
        }
        self.len = self.len.max(offset + bytes.len() as u64);
    }

    /// Changes the length; what a longer file gains is zeros.
    pub(super) fn set_len(&mut self, len: u64, mut touched: impl FnMut(u64)) {
        if len < self.len {
            self.pages.split_off(&len.div_ceil(PAGE));
            let within = (len % PAGE) as usize;
            if within > 0
                && let Some(page) = self.pages.get_mut(&(len / PAGE))
            {
                Rc::make_mut(page)[within..].fill(0);
                touched(len / PAGE);
            }
        }
        self.len = len;
    }
}
