import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { atOnce, type Turn } from './turns.ts'

/** Hexadecimal. Rejects as the signal does, and as the disk. */
export async function hashOf(path: string, signal: AbortSignal, turn: Turn = atOnce): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { signal })) {
    hash.update(chunk as Buffer)
    await turn(signal)
  }
  return hash.digest('hex')
}

/** The state of a file in which it was hashed. */
export interface FileState {
  readonly path: string
  readonly bytes: number
  readonly mtimeMs: number
}

/** More than a `models.json` may name. */
const knownMax = 2_048

/** SHA-256 of files, made once for each state of a file, one file after the other. */
export class FileHashes {
  private readonly known = new Map<string, string>()
  private readonly leaving = new AbortController()
  private working = false

  constructor(private readonly turn: Turn) {}

  /** null: it is not made yet, and is being made, or another one is. */
  of(file: FileState): string | null {
    const found = this.known.get(keyOf(file))
    if (found === undefined && !this.working && !this.leaving.signal.aborted) void this.make(file)
    return found ?? null
  }

  stop(): void {
    this.leaving.abort()
  }

  private async make(file: FileState): Promise<void> {
    this.working = true
    try {
      this.keep(keyOf(file), await hashOf(file.path, this.leaving.signal, this.turn))
    } catch {
      // Who asks again finds the file missing, or begins anew.
    } finally {
      this.working = false
    }
  }

  private keep(key: string, hash: string): void {
    const [oldest] = this.known.keys()
    if (this.known.size >= knownMax && oldest !== undefined) this.known.delete(oldest)
    this.known.set(key, hash)
  }
}

const keyOf = ({ path, bytes, mtimeMs }: FileState) => `${bytes}:${mtimeMs}:${path}`
