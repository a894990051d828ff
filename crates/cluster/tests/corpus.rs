//! The kept inputs of the fuzz target `paxos_messages`, once more, and with bytes of them changed.

#[path = "../../../fuzz/exercises/paxos_messages.rs"]
mod paxos_messages;

#[test]
fn every_kept_message_of_paxos_is_taken() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/paxos_messages"
    );
    let mut count = 0u32;
    for entry in std::fs::read_dir(folder).expect("the corpus is kept") {
        let path = entry.expect("the corpus can be listed").path();
        let data = std::fs::read(&path).expect("its files can be read");
        paxos_messages::run(&data);
        for at in 0..data.len() {
            let mut changed = data.clone();
            for change in [1, 0x10, 0x80] {
                changed[at] = data[at] ^ change;
                paxos_messages::run(&changed);
            }
        }
        count += 1;
    }
    assert!(count >= 15, "{count} inputs in {folder}");
}
