//! The data of a report as bytes: a header in JSON, and columns of numbers and texts behind it.
//!
//! `u32 length of the header (little endian) | header | columns`. The header names each column with its encoding, its number of items and its
//! bytes. `page/data.js` reads this.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

/// A column in the header.
#[derive(Debug, Serialize)]
struct Column {
    name: String,
    /// `v`: LEB128; `z`: LEB128 of the differences between neighbours, zigzag; `b`: bytes; `s`: UTF-8, each text ended by NUL.
    enc: char,
    /// Items.
    n: usize,
    /// Bytes.
    len: usize,
}

/// The columns so far.
#[derive(Debug, Default)]
pub(super) struct Columns {
    columns: Vec<Column>,
    bytes: Vec<u8>,
}

#[derive(Serialize)]
struct Header<'a, H> {
    #[serde(flatten)]
    header: &'a H,
    columns: &'a [Column],
}

impl Columns {
    /// Numbers.
    pub(super) fn numbers(&mut self, name: &str, items: impl IntoIterator<Item = u64>) {
        self.add(name, 'v', items, varint);
    }

    /// Numbers that are close to their neighbours.
    pub(super) fn close_numbers(&mut self, name: &str, items: impl IntoIterator<Item = u32>) {
        let mut last = 0;
        self.add(name, 'z', items, |bytes, item| {
            let difference = i64::from(item) - last;
            last = i64::from(item);
            varint(bytes, ((difference << 1) ^ (difference >> 63)) as u64);
        });
    }

    /// Small numbers.
    pub(super) fn bytes(&mut self, name: &str, items: impl IntoIterator<Item = u8>) {
        self.add(name, 'b', items, Vec::push);
    }

    /// Texts. A NUL ends a text early: names have none.
    pub(super) fn texts<'a>(&mut self, name: &str, items: impl IntoIterator<Item = &'a str>) {
        self.add(name, 's', items, |bytes, text| {
            bytes.extend(text.bytes().take_while(|byte| *byte != 0));
            bytes.push(0);
        });
    }

    fn add<T>(
        &mut self,
        name: &str,
        enc: char,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Vec<u8>, T),
    ) {
        let begin = self.bytes.len();
        let mut n = 0;
        for item in items {
            write(&mut self.bytes, item);
            n += 1;
        }
        self.columns.push(Column { name: name.to_owned(), enc, n, len: self.bytes.len() - begin });
    }

    /// Header and columns, compressed by gzip.
    pub(super) fn finish(self, header: &impl Serialize) -> io::Result<Vec<u8>> {
        let header = serde_json::to_vec(&Header { header, columns: &self.columns })?;
        let length = u32::try_from(header.len()).map_err(io::Error::other)?;
        let mut out = GzEncoder::new(Vec::new(), Compression::default());
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&header)?;
        out.write_all(&self.bytes)?;
        out.finish()
    }
}

fn varint(bytes: &mut Vec<u8>, mut item: u64) {
    while item >= 0x80 {
        bytes.push(item as u8 | 0x80);
        item >>= 7;
    }
    bytes.push(item as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn golden() {
        let mut columns = Columns::default();
        columns.numbers("a", [0, 127, 128, u64::MAX]);
        columns.close_numbers("b", [5, 4, 4]);
        columns.bytes("c", [9]);
        columns.texts("d", ["x", "y\0z", ""]);
        let packed = columns.finish(&serde_json::json!({"version": 1})).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let header = concat!(
            r#"{"version":1,"columns":[{"name":"a","enc":"v","n":4,"len":14},{"name":"b","enc":"z","n":3,"len":3},"#,
            r#"{"name":"c","enc":"b","n":1,"len":1},{"name":"d","enc":"s","n":3,"len":5}]}"#
        );
        let mut golden = u32::try_from(header.len()).unwrap().to_le_bytes().to_vec();
        golden.extend(header.as_bytes());
        golden.extend([0, 127, 0x80, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        golden.extend([10, 1, 0, 9]);
        golden.extend(b"x\0y\0\0");
        assert_eq!(bytes, golden);
    }
}
