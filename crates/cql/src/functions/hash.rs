//! `mask_hash` (`HashMaskingFunction`).

use bytes::Bytes;
use md5::Md5;
use model::CqlType;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};

use super::resolve::{infer, wrong_count};
use super::{Argument, Call, Scalar, factories};
use crate::CqlError;

const PARAMETERS: &str = "any, [text]";

type Digester = fn(&[u8]) -> Bytes;

/// The algorithms, by the names and aliases that Java has for them, in upper case.
const ALGORITHMS: [(&str, Digester); 11] = [
    ("SHA-256", digest::<Sha256>),
    ("MD5", digest::<Md5>),
    ("SHA-1", digest::<Sha1>),
    ("SHA1", digest::<Sha1>),
    ("SHA", digest::<Sha1>),
    ("SHA-224", digest::<Sha224>),
    ("SHA224", digest::<Sha224>),
    ("SHA-384", digest::<Sha384>),
    ("SHA-512", digest::<Sha512>),
    ("SHA-512/224", digest::<Sha512_224>),
    ("SHA-512/256", digest::<Sha512_256>),
];

/// The function of this name for these arguments, if it is this one.
pub(super) fn named(
    name: &str,
    arguments: &[&dyn Argument],
    _receiver: Option<&CqlType>,
) -> Result<Option<Scalar>, CqlError> {
    const NAME: &str = "mask_hash";
    if name != NAME {
        return Ok(None);
    }
    let (1 | 2, Some(value)) = (arguments.len(), arguments.first()) else {
        return wrong_count(NAME, PARAMETERS);
    };
    let mut types = vec![infer(NAME, PARAMETERS, *value, None)?];
    types.extend(arguments.get(1).map(|_| CqlType::Text));
    factories::check_fixed(NAME, &arguments[1..], &types[1..])?;
    Ok(Some(Scalar::new(NAME, types, CqlType::Blob, hash)))
}

fn digest<D: Digest>(value: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&D::digest(value))
}

fn hash(call: &Call<'_>) -> Result<Option<Bytes>, CqlError> {
    let algorithm = match call.arguments.get(1) {
        Some(Some(name)) => {
            let name = String::from_utf8_lossy(name);
            let known = |(known, _): &&(&str, _)| name.eq_ignore_ascii_case(known);
            let Some((_, algorithm)) = ALGORITHMS.iter().find(known) else {
                return Err(CqlError::Invalid(format!(
                    "Hash algorithm not found: {name}"
                )));
            };
            *algorithm
        }
        _ => digest::<Sha256>,
    };
    Ok(call.arguments[0].as_deref().map(algorithm))
}
