//! The kept inputs of the fuzz target `user_function`, once more.

#[path = "../../../fuzz/exercises/user_function.rs"]
mod exercise;

#[test]
fn every_kept_input_is_taken() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/user_function"
    );
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is kept") {
        let path = entry.expect("the corpus can be listed").path();
        let data = std::fs::read(&path).expect("its files can be read");
        exercise::run(&data);
        count += 1;
    }
    assert!(count > 20, "{count} inputs in {folder}");
}
