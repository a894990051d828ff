//! The kept inputs of the fuzz target `metadata_log`, once more, and with bytes of them changed.

#[path = "../../../fuzz/exercises/metadata_log.rs"]
mod metadata_log;

#[test]
fn every_kept_input_of_the_raft_log_is_taken() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/metadata_log"
    );
    let mut random = io::Random::new(1);
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is kept") {
        let path = entry.expect("the corpus can be listed").path();
        let data = std::fs::read(&path).expect("its files can be read");
        metadata_log::run(&data);
        for _ in 0..300 {
            let mut changed = data.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(changed.len() as u64) as usize;
                changed[at] = random.below(256) as u8;
            }
            metadata_log::run(&changed);
        }
        count += 1;
    }
    assert!(count > 20, "{count} inputs in {folder}");
}
