/** The list of a release's files, which its makers sign as a note: a first line, the version, and a line for each file as `sha256sum` writes it. */

const firstLine = 'penstock release'
const filesMax = 100
/** As Semantic Versioning 2.0.0 has it, without what is built from. */
const versionForm = /^(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})(?:-([0-9A-Za-z.-]{1,64}))?$/
const fileForm = /^([0-9a-f]{64}) {2}([A-Za-z0-9._-]{1,128})$/

export interface Release {
  readonly version: string
  /** SHA-256 in hexadecimal digits, by the name of the file. */
  readonly files: ReadonlyMap<string, string>
}

/** The text to sign. `sums`: what `sha256sum` wrote. */
export const releaseText = (version: string, sums: string): string => `${firstLine}\n${version}\n${sums}`

/** null: the text is no such list. */
export function readRelease(text: string): Release | null {
  const [first, version = '', ...rest] = text.split('\n')
  const lines = rest.slice(0, -1)
  if (first !== firstLine || !versionForm.test(version) || rest.at(-1) !== '' || lines.length > filesMax) return null
  const files = new Map<string, string>()
  for (const line of lines) {
    const [, sum, name] = fileForm.exec(line) ?? []
    if (sum === undefined || name === undefined || files.has(name)) return null
    files.set(name, sum)
  }
  return { version, files }
}

/** Parts of a pre-release are compared as numbers where both are, and a number comes before a word. */
function comparePart(a: string, b: string): number {
  const [isA, isB] = [/^\d+$/.test(a), /^\d+$/.test(b)]
  if (isA && isB) return Math.sign(Number(a) - Number(b))
  if (isA !== isB) return isA ? -1 : 1
  return a < b ? -1 : a > b ? 1 : 0
}

function comparePre(a: string | undefined, b: string | undefined): number {
  if (a === undefined || b === undefined) return a === b ? 0 : a === undefined ? 1 : -1
  const [one, other] = [a.split('.'), b.split('.')]
  for (let at = 0; at < Math.max(one.length, other.length); at++) {
    const [left, right] = [one[at], other[at]]
    if (left === undefined || right === undefined) return left === undefined ? -1 : 1
    const order = comparePart(left, right)
    if (order !== 0) return order
  }
  return 0
}

/** -1: `a` comes before `b` (Semantic Versioning 2.0.0 §11); 0: neither does. Throws for what is no version. */
export function compareVersions(a: string, b: string): number {
  const [one, other] = [versionForm.exec(a), versionForm.exec(b)]
  if (one === null || other === null) throw new RangeError('not a version')
  for (const at of [1, 2, 3]) {
    const order = Math.sign(Number(one[at]) - Number(other[at]))
    if (order !== 0) return order
  }
  return comparePre(one[4], other[4])
}
