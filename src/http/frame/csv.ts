import type { Problem } from '../../errors.ts'
import type { MemoryBudget } from '../../host/budget.ts'
import { CountedKeeper } from '../../host/counted-keeper.ts'

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

type CsvPages = AsyncGenerator<readonly (readonly CsvCell[])[]>

/** The table's owner, and the account on which its kept bytes count. */
export interface CsvOwner {
  readonly memory: MemoryBudget
  /** A customer, or `operators`. */
  readonly keeperId: string
}
/** All tables that operators ask for count together, as one customer's would. */
export const operators = 'operators'

class CsvSource extends CountedKeeper implements UnderlyingDefaultSource<Uint8Array> {
  private out: ReadableStreamDefaultController<Uint8Array> | null = null
  private begun = false
  private left = false

  constructor(
    private readonly columns: readonly string[],
    private readonly pages: CsvPages,
    { memory, keeperId }: CsvOwner,
  ) {
    super(memory, keeperId)
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.out = controller
  }

  async pull(): Promise<void> {
    try {
      await this.writeNext()
    } catch (error) {
      this.dropKept()
      throw error
    }
  }

  private async writeNext(): Promise<void> {
    if (!this.begun) {
      this.begun = true
      return this.write(csvText(this.columns, []))
    }
    // A search may find no rows for a while. After `cancel` there are no more pages.
    let page = await this.pages.next()
    while (page.done !== true && page.value.length === 0) page = await this.pages.next()
    if (this.left) return
    if (page.done !== true) return this.write(page.value.map(csvLine).join(''))
    this.dropKept()
    this.out?.close()
  }

  private write(text: string): void {
    const bytes = encoder.encode(text)
    // The page before has been taken: this one is all that is kept.
    if (this.keeps(bytes.length)) this.out?.enqueue(bytes)
  }

  /** Breaks the table off, as a read that fails does. */
  protected override endForMemory(refusal: Problem): void {
    this.left = true
    void this.pages.return(undefined)
    this.out?.error(refusal)
  }

  async cancel(): Promise<void> {
    this.left = true
    this.dropKept()
    await this.pages.return(undefined)
  }
}

/**
 * A table of any length: a page is read when the client has taken the one before, and none for a client that has left. A read
 * that fails breaks the answer off, so that half a table never looks like a whole one.
 */
export const csvStream = (columns: readonly string[], pages: CsvPages, owner: CsvOwner) =>
  new ReadableStream<Uint8Array>(new CsvSource(columns, pages, owner), { highWaterMark: 1 })

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
