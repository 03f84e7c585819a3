import { foreignJson } from '../../protocol/json/foreign-json.ts'

/** A file's fault and its place, for the person who wrote the file. Lines begin with 1. */
export class JsonFault extends Error {
  constructor(
    readonly line: number,
    message: string,
  ) {
    super(message)
  }
}

export interface LinedJson {
  readonly value: unknown
  /** The line where the member at this JSON pointer begins; of one that is missing, that of what should hold it. */
  lineOf(pointer: string): number
}

const depthMax = 16
const token = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|"(?:[^"\\\p{Cc}]|\\.)*"|[{}[\],:]/uy

/** Reads JSON and remembers where everything stands, which `JSON.parse` does not. Throws `JsonFault`. */
class Reader {
  readonly lines = new Map<string, number>()
  private at = 0
  private line = 1

  constructor(private readonly text: string) {}

  whole(): unknown {
    const value = this.value('', 0)
    this.skipSpace()
    if (this.at < this.text.length) throw this.fault('nothing may follow the end')
    return value
  }

  private value(pointer: string, depth: number): unknown {
    if (depth > depthMax) throw this.fault('it is nested too deeply')
    const text = this.next()
    this.lines.set(pointer, this.line)
    if (text === '{') return this.object(pointer, depth)
    if (text === '[') return this.array(pointer, depth)
    const value = foreignJson(text)
    if (value === undefined) throw this.fault(`a value is missing before ${text}`)
    return value
  }

  private object(pointer: string, depth: number): unknown {
    const members = new Map<string, unknown>()
    if (this.take('}')) return {}
    do {
      const name = foreignJson(this.next())
      if (typeof name !== 'string') throw this.fault('the name of a member in quotes is missing')
      if (members.has(name)) throw this.fault(`${name} is there twice`)
      if (!this.take(':')) throw this.fault(`a colon is missing after ${name}`)
      members.set(name, this.value(`${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`, depth + 1))
    } while (this.take(','))
    if (!this.take('}')) throw this.fault('a comma or } is missing')
    return Object.fromEntries(members)
  }

  private array(pointer: string, depth: number): unknown {
    const items: unknown[] = []
    if (this.take(']')) return items
    do items.push(this.value(`${pointer}/${items.length}`, depth + 1))
    while (this.take(','))
    if (!this.take(']')) throw this.fault('a comma or ] is missing')
    return items
  }

  private take(text: string): boolean {
    this.skipSpace()
    if (this.text[this.at] !== text) return false
    this.at++
    return true
  }

  private next(): string {
    this.skipSpace()
    token.lastIndex = this.at
    const [text] = token.exec(this.text) ?? []
    if (text === undefined) {
      throw this.fault(this.at >= this.text.length ? 'it ends too early' : 'this is not JSON')
    }
    this.at += text.length
    return text
  }

  private skipSpace(): void {
    for (; /[ \t\r\n]/.test(this.text[this.at] ?? ''); this.at++) if (this.text[this.at] === '\n') this.line++
  }

  private fault(message: string): JsonFault {
    return new JsonFault(this.line, message)
  }
}

export function linedJson(text: string): LinedJson {
  const reader = new Reader(text)
  const value = reader.whole()
  const lineOf = (pointer: string): number =>
    reader.lines.get(pointer) ?? (pointer === '' ? 1 : lineOf(pointer.slice(0, pointer.lastIndexOf('/'))))
  return { value, lineOf }
}
