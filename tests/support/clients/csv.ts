/** RFC 4180, as strictly as §13 has it: every field quoted, CRLF after every record. Throws otherwise. */
export function parseCsv(text: string): readonly (readonly string[])[] {
  const records: string[][] = []
  let at = 0
  let record: string[] = []
  while (at < text.length) {
    if (text[at] !== '"') throw new Error(`no quote at ${at}`)
    const [field, end] = quoted(text, at + 1)
    record.push(field)
    at = end
    if (text[at] === ',') at++
    else if (text.startsWith('\r\n', at)) {
      records.push(record)
      record = []
      at += 2
    } else throw new Error(`neither a comma nor CRLF at ${at}`)
  }
  if (record.length > 0) throw new Error('the last record has no end')
  const width = records[0]?.length
  if (records.some(({ length }) => length !== width)) throw new Error('records of different lengths')
  return records
}

function quoted(text: string, from: number): readonly [field: string, end: number] {
  let field = ''
  for (let at = from; at < text.length; at++) {
    if (text[at] !== '"') field += text[at]
    else if (text[at + 1] === '"') field += text[++at]
    else return [field, at + 1]
  }
  throw new Error('a field without an end')
}
