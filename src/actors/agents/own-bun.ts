import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { ownRuntime } from '../../host/program-files.ts'

/** The Bun on which this gateway runs, for a computer of the same platform that has none. */
export interface OwnBun {
  readonly file: string
  /** 64 hexadecimal digits. */
  readonly sha256: string
  /** As `uname -sm` prints it. */
  readonly platform: string
}

const systems: Readonly<Record<string, string>> = { linux: 'Linux', darwin: 'Darwin' }
const processors: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  linux: { x64: 'x86_64', arm64: 'aarch64' },
  darwin: { x64: 'x86_64', arm64: 'arm64' },
}

async function look(): Promise<OwnBun | null> {
  const system = systems[process.platform]
  const processor = processors[process.platform]?.[process.arch]
  const file = ownRuntime()
  if (system === undefined || processor === undefined || file === null) return null
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer)
  return { file, sha256: hash.digest('hex'), platform: `${system} ${processor}` }
}

let looked: Promise<OwnBun | null> | null = null

/** Read once, when somebody first asks: about 100 MB. null: it cannot be passed on. */
export const ownBun = (): Promise<OwnBun | null> => {
  looked ??= look().catch(() => null)
  return looked
}
