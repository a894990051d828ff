//! The kept inputs of the fuzz target `replica_messages`, once more, and with bytes of them changed.

#[path = "../../../fuzz/exercises/replica_messages.rs"]
mod replica_messages;

#[test]
fn every_kept_message_of_a_node_is_taken() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/replica_messages"
    );
    let mut count = 0u32;
    for entry in std::fs::read_dir(folder).expect("the corpus is kept") {
        let path = entry.expect("the corpus can be listed").path();
        let data = std::fs::read(&path).expect("its files can be read");
        replica_messages::run(&data);
        for at in 0..data.len() {
            let mut changed = data.clone();
            changed[at] ^= [1, 0x10, 0x80][at % 3];
            replica_messages::run(&changed);
        }
        count += 1;
    }
    assert!(count > 20, "{count} inputs in {folder}");
}
