import { type FileHandle, open, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { Problem } from '../../errors.ts'
import type { FileBytesAsked, GivenFiles } from '../../protocol/wire/nodes/pulls.ts'
import { NodeStartError } from '../membership/enrollment.ts'
import type { OwnFile } from '../servers/models-file.ts'
import { loadModels } from '../servers/models-reading.ts'
import { FileHashes, type FileState } from './file-hashes.ts'
import { pieceBytes, type Turn } from './turns.ts'

export interface GivenModelsOptions {
  /** The folder of `models.json`. */
  readonly folder: string
  /** The owner of this computer lets operators have its models copied (`--give-models`). */
  readonly isAllowed: boolean
  /** The computer yields to its owner, or falls asleep, while it is false. */
  readonly takesWork: () => boolean
  readonly turn: Turn
}

/** Files that are sent at once. */
const sendingMax = 4

const notGiven = () =>
  new Problem('invalid_state', {
    detail:
      'The owner of this computer does not let this model be copied: see --give-models of the agent, and files of models.json',
  })
const gone = () => new Problem('invalid_state', { detail: 'A file of the model is not where models.json says' })

/** A part of a file on its way to another node. */
export interface SentFile {
  readonly body: ReadableStream<Uint8Array>
  readonly from: number
  /** The last byte. */
  readonly to: number
  /** Of the whole file. */
  readonly bytes: number
}

/** What the owner of this computer lets other nodes of the same owner have of its models (§39). */
export class GivenModels {
  private readonly hashes: FileHashes
  private sending = 0

  constructor(private readonly options: GivenModelsOptions) {
    this.hashes = new FileHashes(options.turn)
  }

  /** A file is being sent. */
  get isBusy(): boolean {
    return this.sending > 0
  }

  /** null: the files are still being hashed. Throws `invalid_state` and `model_not_found`. */
  async list(model: string): Promise<GivenFiles | null> {
    const files = this.filesOf(model)
    const states = await Promise.all(files.map(({ path }) => stateOf(path)))
    const listed = states.map((state, at) => ({
      name: basename(state.path),
      bytes: state.bytes,
      sha256: files[at]?.sha256 ?? this.hashes.of(state),
    }))
    const known = listed.flatMap(({ sha256, ...rest }) => (sha256 === null ? [] : [{ ...rest, sha256 }]))
    return known.length < listed.length ? null : { files: known }
  }

  /**
   * Throws as `list`, `runtime_unavailable` while the owner needs the computer, `capacity_exhausted` where enough is sent, and
   * `invalid_request` for bytes that the file does not have.
   */
  async open({ model, file, from, to }: FileBytesAsked, signal: AbortSignal): Promise<SentFile> {
    const { takesWork } = this.options
    const wanted = this.filesOf(model)[file]
    if (wanted === undefined) throw new Problem('invalid_request', { param: 'file' })
    if (!takesWork()) throw new Problem('runtime_unavailable', { detail: 'The owner of this computer needs it' })
    if (this.sending >= sendingMax) throw new Problem('capacity_exhausted')
    this.sending++
    try {
      const { bytes } = await stateOf(wanted.path)
      const last = Math.min(to ?? bytes - 1, bytes - 1)
      if (from > last) throw new Problem('invalid_request', { param: 'from' })
      const handle = await open(wanted.path, 'r').catch(() => Promise.reject(gone()))
      return { body: this.streamed(handle, from, last, signal), from, to: last, bytes }
    } catch (error) {
      this.sending--
      throw error
    }
  }

  stop(): void {
    this.hashes.stop()
  }

  private filesOf(model: string): readonly OwnFile[] {
    const { folder, isAllowed } = this.options
    if (!isAllowed) throw notGiven()
    const found = modelsIn(folder).find(
      ({ id, profiles = [] }) => id === model || profiles.some((profile) => profile.id === model),
    )
    if (found === undefined) throw new Problem('model_not_found', { param: 'model' })
    if (found.files === undefined) throw notGiven()
    return found.files
  }

  /** Ends early, as a connection that breaks, where the file is shorter than it was, or the owner needs the computer. */
  private streamed(handle: FileHandle, from: number, last: number, signal: AbortSignal): ReadableStream<Uint8Array> {
    const { turn, takesWork } = this.options
    let at = from
    let over = false
    const end = async () => {
      if (over) return
      over = true
      signal.removeEventListener('abort', end)
      this.sending--
      await handle.close().catch(() => {})
    }
    signal.addEventListener('abort', end)
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          try {
            await turn(signal)
            signal.throwIfAborted()
            if (!takesWork()) throw new Error('the owner needs the computer')
            const piece = Buffer.allocUnsafe(Math.min(pieceBytes, last - at + 1))
            const { bytesRead } = await handle.read(piece, 0, piece.length, at)
            if (bytesRead === 0) throw new Error('the file has become shorter')
            at += bytesRead
            controller.enqueue(piece.subarray(0, bytesRead))
            if (at <= last) return
            await end()
            controller.close()
          } catch (error) {
            await end()
            controller.error(error)
          }
        },
        cancel: end,
      },
      { highWaterMark: 0 },
    )
  }
}

function modelsIn(folder: string) {
  try {
    return loadModels(folder)?.models ?? []
  } catch (error) {
    if (error instanceof NodeStartError) return []
    throw error
  }
}

async function stateOf(path: string): Promise<FileState> {
  const found = await stat(path).catch(() => null)
  if (found === null || !found.isFile() || found.size === 0) throw gone()
  return { path, bytes: found.size, mtimeMs: found.mtimeMs }
}
