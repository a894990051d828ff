//! DESCRIBE.

use cluster::NodeId;
use cql::describe::{ClusterDescription, DescribePlan, DescribePosition};
use wire::QueryParameters;

use super::{Call, ResultColumns, page_size};
use crate::error::RequestError;
use crate::system::PARTITIONER;

impl Call<'_> {
    pub(super) fn describe(
        &mut self,
        describe: &DescribePlan,
        columns: ResultColumns<'_>,
        parameters: &QueryParameters<'_>,
    ) -> Result<(), RequestError> {
        let metadata = self.shard.metadata();
        let schema = &metadata.schema;
        let position = match parameters.paging_state {
            Some(state) => DescribePosition::decode(state, schema.version)?,
            None => DescribePosition {
                schema_version: schema.version,
                offset: 0,
            },
        };
        let all = describe.rows(schema, &self.cluster_description())?;
        let (page, next) = position.page(&all, page_size(parameters));
        let mut rows = self.rows(&columns, parameters);
        for row in page {
            row.iter().for_each(|value| rows.value(value.as_deref()));
        }
        rows.finish(next.map(|next| next.encode()).as_deref());
        Ok(())
    }

    fn cluster_description(&self) -> ClusterDescription {
        let local = self.shard.local();
        let metadata = self.shard.metadata();
        let keyspace = self.keyspace(None);
        let name = |id: &NodeId| {
            let address = metadata.node(*id).map(|node| node.address);
            format!("/{}", address.unwrap_or_else(|| local.storage_address()))
        };
        let ranges = keyspace.iter().flat_map(|keyspace| {
            let placement = metadata.placement(keyspace);
            placement.ranges().map(|(end, replicas)| {
                let nodes = replicas.natural.iter().map(name);
                (end.0.to_string(), nodes.collect())
            })
        });
        ClusterDescription {
            name: local.cluster_name.clone(),
            partitioner: simple_name(PARTITIONER).to_owned(),
            snitch: "DynamicEndpointSnitch".to_owned(),
            range_ownership: ranges.collect(),
        }
    }
}

/// The name of a class without its package.
fn simple_name(class: &str) -> &str {
    class.rsplit('.').next().unwrap_or(class)
}
