/** First characters that a spreadsheet takes for a formula, the full-width ones included (OWASP ASVS 5, 1.2.10). */
const formula = /^[=+\-@\t\r\n\u0000＝＋－＠]/
const nul = /\u0000/g

export type CsvCell = string | number | boolean | null

/** Every field quoted (RFC 4180), null is empty, and nothing that a spreadsheet would run (§13). */
function cellText(cell: CsvCell): string {
  if (cell === null) return '""'
  const text = String(cell)
  const inert = (formula.test(text) ? `'${text}` : text).replaceAll(nul, '')
  return `"${inert.replaceAll('"', '""')}"`
}

/** Header line and rows, each ended by CRLF. */
export function csvText(columns: readonly string[], rows: readonly (readonly CsvCell[])[]): string {
  return [columns, ...rows].map((row) => `${row.map(cellText).join(',')}\r\n`).join('')
}

/** `name-20261120.csv` */
export function csvResponse(
  name: string,
  day: string,
  text: string,
  headers: Readonly<Record<string, string>>,
): Response {
  return new Response(text, {
    headers: {
      ...headers,
      'content-type': 'text/csv; charset=utf-8; header=present',
      'content-disposition': `attachment; filename="${name}-${day.replaceAll('-', '')}.csv"`,
    },
  })
}
