/** Archives whose bytes follow from what is in them alone: no time, no user, no order but that of the list. */

export interface ArchivedFile {
  /** Relative, with `/`; a folder ends with one. */
  readonly path: string
  readonly bytes: Uint8Array
  /** Permission bits. */
  readonly mode: number
  /** User and group by number; absent: root. */
  readonly owner?: number
}

const blockBytes = 512
const nameBytesMax = 100
const prefixBytesMax = 155
const encoder = new TextEncoder()

const octal = (value: number, width: number) => `${value.toString(8).padStart(width - 1, '0')}\0`

/** A path that is too long for its field is parted at a slash (POSIX ustar). */
function parted(path: string): readonly [prefix: string, name: string] {
  if (encoder.encode(path).length <= nameBytesMax) return ['', path]
  for (let at = path.indexOf('/'); at > 0; at = path.indexOf('/', at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)]
    if (encoder.encode(name).length <= nameBytesMax && encoder.encode(prefix).length <= prefixBytesMax && name !== '') {
      return [prefix, name]
    }
  }
  throw new Error(`${path} is too long for an archive`)
}

function header({ path, bytes, mode, owner = 0 }: ArchivedFile): Uint8Array {
  const block = new Uint8Array(blockBytes)
  const put = (text: string, at: number) => block.set(encoder.encode(text), at)
  const [prefix, name] = parted(path)
  const isFolder = path.endsWith('/')
  put(name, 0)
  put(octal(mode, 8), 100)
  put(octal(owner, 8), 108)
  put(octal(owner, 8), 116)
  put(octal(isFolder ? 0 : bytes.length, 12), 124)
  put(octal(0, 12), 136)
  put('        ', 148)
  put(isFolder ? '5' : '0', 156)
  put('ustar\x0000', 257)
  if (owner === 0) for (const at of [265, 297]) put('root', at)
  put(prefix, 345)
  put(
    `${block
      .reduce((sum, byte) => sum + byte, 0)
      .toString(8)
      .padStart(6, '0')}\0 `,
    148,
  )
  return block
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

/** A tar file (POSIX ustar). Throws for a path that no such file can hold. */
export function tar(files: readonly ArchivedFile[]): Uint8Array<ArrayBuffer> {
  const parts = files.flatMap((file) => {
    const rest = file.bytes.length % blockBytes
    return [header(file), file.bytes, new Uint8Array(rest === 0 ? 0 : blockBytes - rest)]
  })
  return joined([...parts, new Uint8Array(2 * blockBytes)])
}

/** As `deb` packages are: an ar file of members with an even length each. */
export function ar(members: readonly { readonly name: string; readonly bytes: Uint8Array }[]): Uint8Array<ArrayBuffer> {
  const parts = members.flatMap(({ name, bytes }) => [
    encoder.encode(
      `${name.padEnd(16)}${'0'.padEnd(12)}${'0'.padEnd(6)}${'0'.padEnd(6)}${'100644'.padEnd(8)}${String(bytes.length).padEnd(10)}\`\n`,
    ),
    bytes,
    encoder.encode(bytes.length % 2 === 0 ? '' : '\n'),
  ])
  return joined([encoder.encode('!<arch>\n'), ...parts])
}

/** Its head holds neither a time nor a name. */
export const gzip = (bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> => Bun.gzipSync(bytes, { level: 6 })

/** Every folder on the way to a file, each once and before its files. */
export function withFolders(files: readonly ArchivedFile[], prefix = ''): readonly ArchivedFile[] {
  const folders = new Set<string>()
  for (const { path } of files) {
    for (let at = path.indexOf('/'); at > 0; at = path.indexOf('/', at + 1)) folders.add(path.slice(0, at + 1))
  }
  const made = [...folders].sort().map((path) => ({ path, bytes: new Uint8Array(), mode: 0o755 }))
  return [...made, ...files].map((file) => ({ ...file, path: prefix + file.path }))
}
