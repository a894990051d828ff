//! The texts of `inet`, as `java.net.InetAddress` reads and writes them. Host names are refused:
//! looking them up would make a value depend on the network.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The four or sixteen bytes of an address.
pub(crate) fn from_text(text: &str) -> Option<Vec<u8>> {
    if let Some(address) = v4_from_text(text) {
        return Some(address.octets().to_vec());
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    // The number of an interface means nothing in a value.
    let bare = match bare.split_once('%') {
        Some((address, scope)) if scope.bytes().all(|b| b.is_ascii_digit()) => address,
        _ => bare,
    };
    let address: Ipv6Addr = bare.parse().ok()?;
    Some(match address.to_ipv4_mapped() {
        Some(v4) => v4.octets().to_vec(),
        None => address.octets().to_vec(),
    })
}

/// One to four numbers; the last one fills the bytes that are left.
fn v4_from_text(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > 4 {
        return None;
    }
    let mut address = 0u64;
    for (i, part) in parts.iter().enumerate() {
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let bits = if i + 1 == parts.len() { 8 * (4 - i) } else { 8 };
        let value: u64 = part.parse().ok()?;
        if value >> bits != 0 {
            return None;
        }
        address = address << bits | value;
    }
    u32::try_from(address).ok().map(Ipv4Addr::from)
}

/// The address of four or sixteen bytes; none of other lengths.
pub(crate) fn to_text(value: &[u8]) -> Option<String> {
    if let Some(octets) = value.as_array::<4>() {
        return Some(Ipv4Addr::from(*octets).to_string());
    }
    let address = Ipv6Addr::from(*value.as_array::<16>()?);
    if let Some(v4) = address.to_ipv4_mapped() {
        return Some(v4.to_string());
    }
    // Java shortens no zeros.
    let groups: Vec<String> = address
        .segments()
        .iter()
        .map(|g| format!("{g:x}"))
        .collect();
    Some(groups.join(":"))
}
