//! The kept inputs of the fuzz targets `frame_decoder` and `internode`, once more.

#[path = "../../../fuzz/exercises/frame_decoder.rs"]
mod frame_decoder;
#[path = "../../../fuzz/exercises/internode.rs"]
mod internode;
#[path = "../../../fuzz/exercises/segments.rs"]
mod segments;

#[test]
fn every_kept_input_of_clients_is_taken() {
    replay("frame_decoder", frame_decoder::run);
}

#[test]
fn every_kept_input_of_nodes_is_taken() {
    replay("internode", internode::run);
}

fn replay(target: &str, run: impl Fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the corpus is kept") {
        let path = entry.expect("the corpus can be listed").path();
        let data = std::fs::read(&path).expect("its files can be read");
        run(&data);
        count += 1;
    }
    assert!(count > 20, "{count} inputs in {folder}");
}
