//! Groups of rows: each ends where the next one begins, and gives one row of the result.

use bytes::Bytes;
use model::Partition;

use super::super::fetch::{Slots, owned};
use super::super::node::refuse_unset;
use super::super::position::Position;
use super::super::select::SelectPlan;
use super::{Found, Kept, RowSink, SelectRun};
use crate::CqlError;
use crate::functions::Accumulator;

/// A group of rows that are aggregated together.
#[derive(Debug)]
pub(super) struct Group {
    key: Vec<Option<Bytes>>,
    /// The slots of its first row: columns that are not aggregated show those.
    first: Slots<'static>,
    accumulators: Vec<Accumulator>,
    last: Position,
}

impl SelectPlan {
    /// Does a row with these values belong to the group?
    fn is_in(&self, group: &Group, key: &[Option<Bytes>]) -> bool {
        let mut values = self.group_by.iter().zip(group.key.iter().zip(key));
        values.all(|(common, (a, b))| common.is_same(a.as_ref(), b.as_ref()))
    }
}

impl SelectRun<'_> {
    /// Takes a row into its group; a new group gives the one before to the sink.
    pub(super) fn aggregate(
        &mut self,
        slots: &Slots<'_>,
        partition: &Partition,
        row: Option<Found<'_>>,
        sink: &mut RowSink<'_>,
    ) -> Result<(), CqlError> {
        // A group ends with its partition: of a row behind the last group that is wanted nothing is evaluated.
        let ends = |group: &Group| group.last.key != *partition.key.key();
        let is_grouped = !self.plan.group_by.is_empty();
        let has_ended = is_grouped && self.group.as_deref().is_some_and(ends);
        if has_ended && !self.end_group(sink)? {
            return Ok(());
        }
        let key: Vec<Option<Bytes>> = self
            .plan
            .group_by
            .iter()
            .map(|common| common.node.evaluate(slots, &[], self.request))
            .collect::<Result<_, _>>()?;
        let is_other = |group: &Group| !self.plan.is_in(group, &key);
        if self.group.as_deref().is_some_and(is_other) && !self.end_group(sink)? {
            return Ok(());
        }
        let position = Position {
            key: partition.key.key().clone(),
            clustering: row.map(Found::clustering),
            remaining_in_partition: self.partition.as_ref().map_or(0, |(_, left)| *left),
            remaining: self.remaining,
        };
        let aggregates = &self.plan.selection.aggregates;
        let group = self.group.get_or_insert_with(|| {
            Box::new(Group {
                key,
                first: owned(slots),
                accumulators: aggregates
                    .iter()
                    .map(|call| call.aggregate.start())
                    .collect(),
                last: position.clone(),
            })
        });
        // Functions are called before anything changes: they may give way.
        let mut inputs = Vec::with_capacity(aggregates.len());
        for (call, accumulator) in aggregates.iter().zip(&group.accumulators) {
            refuse_unset(call.aggregate.name(), &call.arguments, self.request)?;
            let arguments: Vec<Option<Bytes>> = call
                .arguments
                .iter()
                .map(|node| node.evaluate(slots, &[], self.request))
                .collect::<Result<_, _>>()?;
            inputs.push(accumulator.input(&self.request.functions, arguments)?);
        }
        group.last = position;
        for (accumulator, input) in group.accumulators.iter_mut().zip(inputs) {
            accumulator.take(input)?;
        }
        Ok(())
    }

    /// Gives the group to the sink, as another one begins: is that still wanted?
    fn end_group(&mut self, sink: &mut RowSink<'_>) -> Result<bool, CqlError> {
        self.finish_group(sink)?;
        self.request.functions.next_step();
        Ok(!self.full && self.remaining > 0)
    }

    /// Gives the group to the sink, or keeps it where groups are sorted.
    pub(super) fn finish_group(&mut self, sink: &mut RowSink<'_>) -> Result<(), CqlError> {
        let Some(group) = &self.group else {
            return Ok(());
        };
        let grouped = !self.plan.group_by.is_empty();
        let shown = !grouped || group.last.remaining_in_partition > 0;
        let sorts = self.plan.sorts_groups();
        let mut kept = None;
        if shown {
            let functions = &self.request.functions;
            let results: Vec<Option<Bytes>> = group
                .accumulators
                .iter()
                .map(|accumulator| accumulator.result(functions))
                .collect::<Result<_, _>>()?;
            if sorts {
                kept = Some(results);
            } else {
                self.plan
                    .selection
                    .emit(&group.first, &results, self.request, sink)?;
            }
        }
        let Some(group) = self.group.take().filter(|_| shown) else {
            return Ok(());
        };
        // The partition may have changed since: each position knows what its own still allows.
        let mut last = group.last;
        if grouped {
            last.remaining_in_partition -= 1;
            if let Some((key, left)) = &mut self.partition
                && *key == last.key
            {
                *left = last.remaining_in_partition;
            }
        }
        if let Some(results) = kept {
            let slots = group.first;
            self.sorted.push(Kept { slots, results });
            return Ok(());
        }
        self.count(&group.first);
        last.remaining = self.remaining;
        self.last = Some(last);
        if !grouped {
            self.full = false;
        }
        Ok(())
    }

    /// Aggregates of no rows at all give one row.
    pub(super) fn empty_group(&mut self, sink: &mut RowSink<'_>) -> Result<(), CqlError> {
        let aggregates = &self.plan.selection.aggregates;
        let results: Vec<Option<Bytes>> = aggregates
            .iter()
            .map(|call| call.aggregate.start().result(&self.request.functions))
            .collect::<Result<_, _>>()?;
        let slots = self.plan.selection.fetch.empty();
        self.plan
            .selection
            .emit(&slots, &results, self.request, sink)
    }
}
