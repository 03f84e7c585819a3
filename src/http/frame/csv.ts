/** First characters that a spreadsheet takes for a formula, the full-width ones included (OWASP ASVS 5, 1.2.10). */
const formula = /^[=+\-@\t\r\n\u0000＝＋－＠]/
const nul = /\u0000/g

export type CsvCell = string | number | boolean | null

/** Of a view whose members are all cells, in the order of the columns. */
export const cellsOf = <K extends string, T extends { readonly [C in K]: CsvCell }>(view: T, columns: readonly K[]) =>
  columns.map((column): CsvCell => view[column])

/** Every field quoted (RFC 4180), null is empty, and nothing that a spreadsheet would run (§13). */
function cellText(cell: CsvCell): string {
  if (cell === null) return '""'
  const text = String(cell)
  const inert = (formula.test(text) ? `'${text}` : text).replaceAll(nul, '')
  return `"${inert.replaceAll('"', '""')}"`
}

const csvLine = (row: readonly CsvCell[]) => `${row.map(cellText).join(',')}\r\n`

/** Header line and rows, each ended by CRLF. */
export function csvText(columns: readonly string[], rows: readonly (readonly CsvCell[])[]): string {
  return [columns, ...rows].map(csvLine).join('')
}

const encoder = new TextEncoder()

/**
 * A table of any length: a page is read when the client has taken the one before, and none for a client that has left. A read
 * that fails breaks the answer off, so that half a table never looks like a whole one.
 */
export function csvStream(
  columns: readonly string[],
  pages: AsyncGenerator<readonly (readonly CsvCell[])[]>,
): ReadableStream<Uint8Array> {
  let begun = false
  let left = false
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (!begun) {
          begun = true
          return controller.enqueue(encoder.encode(csvText(columns, [])))
        }
        // A search may come to nothing for a while. After `cancel` the pages are over.
        let page = await pages.next()
        while (page.done !== true && page.value.length === 0) page = await pages.next()
        if (page.done !== true) controller.enqueue(encoder.encode(page.value.map(csvLine).join('')))
        else if (!left) controller.close()
      },
      async cancel() {
        left = true
        await pages.return(undefined)
      },
    },
    { highWaterMark: 1 },
  )
}

/** `name-20261120.csv` */
export function csvResponse(
  name: string,
  day: string,
  text: string | ReadableStream<Uint8Array>,
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
