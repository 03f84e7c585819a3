import { Problem } from '../../errors.ts'

/** Stands where the name of the model goes, which differs from node to node. */
export const modelPlace: unique symbol = Symbol('model')
export type FormPiece = Uint8Array | typeof modelPlace

/** The rules for a form on its way to a node. */
export interface FormRules {
  /** Fields that no node gets. */
  readonly dropped: ReadonlySet<string>
  /** Throws for a field that must not be there. */
  readonly check: (name: string) => void
}

const partsMax = 64
const headBytesMax = 4 * 1024
const preambleBytesMax = 1024
const modelBytesMax = 256
const modelField = 'model'
const lineEnd = Buffer.from('\r\n')
const headEnd = Buffer.from('\r\n\r\n')
const boundaryType =
  /^multipart\/form-data\s*;\s*boundary=(?:"([A-Za-z0-9'()+_,./:=? -]{1,70})"|([A-Za-z0-9'()+_,.:=?-]{1,70}))\s*$/i
const disposition =
  /^content-disposition:\s*form-data;\s*name="([A-Za-z0-9_.[\]-]{1,64})"(?:;\s*filename="([^"\r\n]*)")?(?:;\s*filename\*=[^;"\r\n]*)?$/i
const contentType =
  /^content-type:\s*([A-Za-z0-9!#$&^_.+-]+\/[A-Za-z0-9!#$&^_.+-]+(?:;\s*[A-Za-z0-9-]+=[A-Za-z0-9"_.-]+)*)$/i
const sameForAll = /^(?:content-transfer-encoding:\s*(?:binary|8bit|7bit)|content-length:\s*[0-9]+)$/i

const invalid = (detail: string) => new Problem('invalid_request', { detail })

/** null: it is no form. */
export function boundaryOf(type: string): string | null {
  const [, quoted, plain] = boundaryType.exec(type) ?? []
  return quoted ?? plain ?? null
}

interface PartHead {
  readonly name: string
  /** The rewritten head, so that no server reads another name in it. */
  readonly written: Buffer
}

function readHead(bytes: Buffer): PartHead {
  let name: string | undefined
  let file: string | undefined
  let type = ''
  for (const line of bytes.toString('latin1').split('\r\n')) {
    const described = disposition.exec(line)
    const typed = contentType.exec(line)
    if (described !== null && name === undefined) [, name, file] = described
    else if (typed !== null && type === '') type = `\r\nContent-Type: ${typed[1]}`
    else if (!sameForAll.test(line)) throw invalid('A part of the form has a header that is not understood')
  }
  if (name === undefined) throw invalid('A part of the form has no name')
  const named = `form-data; name="${name}"${file === undefined ? '' : `; filename="${file}"`}`
  return { name, written: Buffer.from(`Content-Disposition: ${named}${type}\r\n\r\n`, 'latin1') }
}

/**
 * A form on its way through: part after part, in whatever pieces it comes. The filter removes the model's name and the
 * parts that no node gets, and passes the rest unchanged.
 */
export class FormFilter {
  /** As the client named it; null: it has not come. */
  model: string | null = null
  /** Output that has not been taken yet. */
  readonly out: FormPiece[] = []
  private readonly delimiter: Buffer
  private readonly opening: Buffer
  private rest: Buffer = Buffer.from(lineEnd)
  private state: 'before' | 'between' | 'head' | 'passed' | 'dropped' | 'model' | 'over' = 'before'
  private parts = 0

  constructor(
    boundary: string,
    private readonly rules: FormRules,
  ) {
    this.delimiter = Buffer.from(`\r\n--${boundary}`)
    this.opening = Buffer.from(`--${boundary}\r\n`)
  }

  push(chunk: Uint8Array): void {
    if (this.state === 'over') return
    this.rest = this.rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([this.rest, chunk])
    while (this.step());
  }

  /** The client has sent all. */
  end(): void {
    if (this.state !== 'over') throw invalid('The form is cut off')
  }

  /** False: more bytes are needed. */
  private step(): boolean {
    if (this.state === 'over') return false
    if (this.state === 'between') return this.between()
    return this.state === 'head' ? this.head() : this.body()
  }

  private body(): boolean {
    const at = this.rest.indexOf(this.delimiter)
    if (at === -1) return this.unfinished()
    this.take(at)
    this.rest = this.rest.subarray(this.delimiter.length)
    if (this.state === 'passed' || this.state === 'model') this.out.push(lineEnd)
    this.state = 'between'
    return true
  }

  /** Passes all bytes of a part that cannot belong to its closing boundary. */
  private unfinished(): boolean {
    const known = this.rest.length - this.delimiter.length + 1
    if (this.state === 'model' && known > modelBytesMax) throw invalid('model: too long')
    if (this.state === 'before' && known > preambleBytesMax) throw invalid('The form does not begin')
    if ((this.state === 'passed' || this.state === 'dropped') && known > 0) this.take(known)
    return false
  }

  private take(length: number): void {
    const bytes = this.rest.subarray(0, length)
    this.rest = this.rest.subarray(length)
    if (this.state === 'passed' && length > 0) this.out.push(bytes)
    if (this.state === 'model') this.nameModel(bytes)
  }

  private nameModel(bytes: Buffer): void {
    const name = bytes.toString('utf8')
    if (name === '' || bytes.length > modelBytesMax || name.includes('\ufffd')) {
      throw new Problem('invalid_request', { param: modelField, detail: 'model: the name of a model' })
    }
    this.model = name
    this.out.push(modelPlace)
  }

  private between(): boolean {
    if (this.rest.length < lineEnd.length) return false
    const mark = this.rest.subarray(0, lineEnd.length)
    this.rest = this.rest.subarray(lineEnd.length)
    if (mark.toString('latin1') === '--') this.over()
    else if (mark.equals(lineEnd)) this.state = 'head'
    else throw invalid('The form is broken between two parts')
    return this.state !== 'over'
  }

  private over(): void {
    this.state = 'over'
    this.rest = Buffer.alloc(0)
    this.out.push(Buffer.from(`${this.opening.toString('latin1', 0, this.opening.length - lineEnd.length)}--\r\n`))
  }

  private head(): boolean {
    const at = this.rest.indexOf(headEnd)
    if (at > headBytesMax || (at === -1 && this.rest.length > headBytesMax)) throw invalid('A part has too long a head')
    if (at === -1) return false
    if (++this.parts > partsMax) throw invalid(`A form has at most ${partsMax} parts`)
    const { name, written } = readHead(this.rest.subarray(0, at))
    this.rest = this.rest.subarray(at + headEnd.length)
    this.begin(name, written)
    return true
  }

  private begin(name: string, written: Buffer): void {
    this.rules.check(name)
    const isModel = name === modelField
    // Another spelling might be the model for a server that reads less strictly.
    if (isModel ? this.model !== null : name.toLowerCase().startsWith(modelField)) {
      throw new Problem('invalid_request', { param: modelField, detail: 'model: named once, by this name' })
    }
    this.state = isModel ? 'model' : this.rules.dropped.has(name) ? 'dropped' : 'passed'
    if (this.state !== 'dropped') this.out.push(this.opening, written)
  }
}
