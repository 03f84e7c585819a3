import { closeSync, constants, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What a kernel would answer to one request. */
export interface TsmAnswer {
  readonly report: Uint8Array
  readonly certificates?: Uint8Array
  /** How often the entry is written to meanwhile; 1: by the reader alone. */
  readonly writes?: number
}

/**
 * A folder that plays configfs-tsm: named pipes stand in the place of what the kernel reads and writes. An agent of this process waits for
 * them in a thread of few, so a `TsmKernel` must need none of these: WebCrypto does.
 */
export interface TsmFolder {
  readonly path: string
  /** The bytes that were to be signed, in order. */
  readonly asked: Uint8Array[]
  /** Makes an entry before an agent does, and answers there. */
  serve(name: string): void
  stop(): Promise<void>
}

export type TsmKernel = (data: Uint8Array) => Promise<TsmAnswer>

export function startTsmFolder(provider: string, kernel: TsmKernel): TsmFolder {
  const path = mkdtempSync(join(tmpdir(), 'penstock-tsm-'))
  const asked: Uint8Array[] = []
  const children = new Set<ReturnType<typeof Bun.spawn>>()
  const loops: Promise<void>[] = []
  const pipes: string[] = []
  let stopped = false
  const spawned = <T extends ReturnType<typeof Bun.spawn>>(child: T): T => {
    children.add(child)
    void child.exited.then(() => children.delete(child))
    return child
  }
  /** A pipe is read and written by a process of its own, which waits for the other end. */
  const readPipe = (file: string) =>
    new Response(spawned(Bun.spawn(['cat', file], { stdout: 'pipe' })).stdout as ReadableStream).bytes()
  const writePipe = (file: string, bytes: Uint8Array) =>
    spawned(Bun.spawn(['sh', '-c', 'cat > "$0"', file], { stdin: bytes })).exited
  const answerAt = async (entry: string) => {
    for (let generation = 0; ; ) {
      const data = await readPipe(join(entry, 'inblob'))
      if (stopped) return
      asked.push(data)
      const { report, certificates, writes = 1 } = await kernel(data)
      generation += writes
      writeFileSync(join(entry, 'generation'), `${generation}\n`)
      writeFileSync(join(entry, 'auxblob'), certificates ?? new Uint8Array())
      await writePipe(join(entry, 'outblob'), report)
      if (stopped) return
    }
  }
  return {
    path,
    asked,
    serve: (name) => {
      const entry = join(path, name)
      mkdirSync(entry)
      writeFileSync(join(entry, 'generation'), '0\n')
      writeFileSync(join(entry, 'provider'), `${provider}\n`)
      const made = Bun.spawnSync(['mkfifo', join(entry, 'inblob'), join(entry, 'outblob')])
      if (made.exitCode !== 0) throw new Error(made.stderr.toString())
      pipes.push(join(entry, 'inblob'), join(entry, 'outblob'))
      loops.push(answerAt(entry))
    },
    stop: async () => {
      stopped = true
      for (const child of children) child.kill('SIGKILL')
      // Whoever waits for the other end of a pipe finds it, and its end.
      for (const pipe of pipes) closeSync(openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK))
      await Promise.all(loops)
      rmSync(path, { recursive: true })
    },
  }
}

/** The entry of an agent, by the fingerprint that it prints. */
export const entryOf = (fingerprint: string) =>
  `penstock-${Buffer.from(fingerprint.slice('SHA256:'.length), 'base64url').toString('hex').slice(0, 16)}`
