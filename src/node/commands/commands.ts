import { Problem } from '../../errors.ts'
import { decodeBase64Url } from '../../protocol/signing/base64.ts'
import { envelopeFault } from '../../protocol/signing/envelope.ts'
import type { CommandState, CommandSubmit } from '../../protocol/wire/admin/command.ts'
import { sha256Hex } from '../../secrets.ts'
import { dayMs, hourMs } from '../../time.ts'
import type { CommandStore, StoredCommand } from './command-store.ts'
import { runSealed, type SealedJob, type Worker } from './sealed-work.ts'

export interface CommandsOptions {
  readonly store: CommandStore
  readonly worker: Worker
  /** Called for a defect while a command ran. The log names only its class. */
  readonly failed: (commandId: string, error: unknown) => void
  /** How many commands run at once. Further ones wait. */
  readonly runningMax?: number
  /** How many commands may be accepted and not yet ended. */
  readonly openMax?: number
  readonly now?: () => number
}

interface Command extends StoredCommand {
  readonly abort: AbortController
  readonly waiting: Set<() => void>
}

const runningMaxDefault = 4
const openMaxDefault = 256
/** How long ids and key hashes are kept, so that no envelope runs twice (§10). */
const recordsKeptMs = 30 * dayMs
/** How long sealed answers are kept after the job's deadline. */
const answersKeptMs = hourMs

/** Private jobs of the agent (§22): idempotent by command id, over its own crashes too. */
export class Commands {
  private readonly commands = new Map<string, Command>()
  /** The command id by the hash of its ephemeral key. */
  private readonly keys = new Map<string, string>()
  private readonly queue: { readonly command: Command; readonly order: SealedJob }[] = []
  private readonly running = new Set<Promise<void>>()
  private readonly now: () => number
  private stopped = false

  constructor(private readonly options: CommandsOptions) {
    this.now = options.now ?? Date.now
    for (const stored of options.store.load()) this.restore(stored)
  }

  /**
   * Accepts a command; the same command again has no effect. Throws `envelope_invalid`, `envelope_replayed` (its key is
   * another command's), `invalid_state` (it runs) and `capacity_exhausted`. `timed`: as `SealedJob` has it.
   */
  submit(commandId: string, submit: CommandSubmit, timed = false): void {
    if (envelopeFault(submit.encrypted_request) !== null) throw new Problem('envelope_invalid')
    this.forgetOld()
    const known = this.commands.get(commandId)
    const key = decodeBase64Url(submit.encrypted_request.client_public_key_x25519) ?? new Uint8Array()
    const publicKeyHash = sha256Hex(key)
    const owner = this.keys.get(publicKeyHash)
    if (
      (owner !== undefined && owner !== commandId) ||
      (known !== undefined && known.publicKeyHash !== publicKeyHash)
    ) {
      throw new Problem('envelope_replayed')
    }
    if (known !== undefined && known.state.attempt >= submit.attempt) return
    if (known?.state.status === 'running') throw new Problem('invalid_state')
    const open = this.queue.length + this.running.size
    if (this.stopped || open >= (this.options.openMax ?? openMaxDefault)) throw new Problem('capacity_exhausted')
    const state: CommandState = { command_id: commandId, attempt: submit.attempt, status: 'running' }
    const createdMs = known?.createdMs ?? this.now()
    const command = this.keep({
      commandId,
      publicKeyHash,
      state,
      createdMs,
      deadlineMs: Date.parse(submit.deadline_at),
    })
    // The record is on the disk before the envelope is opened, so the key stays used whatever happens next.
    this.options.store.save(storedOf(command))
    this.queue.push({ command, order: { command: submit, timed } })
    this.runNext()
  }

  /** Waits until the command ends, at most `waitMs`. Throws `command_not_found`. */
  async state(commandId: string, waitMs: number, signal: AbortSignal): Promise<CommandState> {
    const command = this.commands.get(commandId)
    if (command === undefined) throw new Problem('command_not_found')
    if (command.state.status === 'running' && waitMs > 0) await ended(command, waitMs, signal)
    return this.commands.get(commandId)?.state ?? command.state
  }

  /** Ends a running command. Returns true if the command was known. */
  cancel(commandId: string): boolean {
    const command = this.commands.get(commandId)
    if (command === undefined) return false
    if (command.state.status !== 'running') return true
    this.finish(command, { command_id: commandId, attempt: command.state.attempt, status: 'cancelled' })
    command.abort.abort()
    return true
  }

  /** Cuts running commands. The gateway sends them again. */
  async stop(): Promise<void> {
    this.stopped = true
    this.queue.length = 0
    for (const { abort, state, waiting } of this.commands.values()) {
      if (state.status !== 'running') continue
      abort.abort()
      for (const wake of waiting) wake()
    }
    await Promise.all(this.running)
  }

  /** A command that ran when the agent ended has failed. Another attempt may succeed. */
  private restore(stored: StoredCommand): void {
    const { commandId, state } = stored
    const lost: CommandState = {
      command_id: commandId,
      attempt: state.attempt,
      status: 'failed',
      error: { code: 'runtime_error' },
    }
    this.keep({ ...stored, state: state.status === 'running' ? lost : state })
  }

  private keep(stored: StoredCommand): Command {
    const command = { ...stored, abort: new AbortController(), waiting: new Set<() => void>() }
    this.commands.set(stored.commandId, command)
    this.keys.set(stored.publicKeyHash, stored.commandId)
    return command
  }

  private runNext(): void {
    while (this.running.size < (this.options.runningMax ?? runningMaxDefault)) {
      const next = this.queue.shift()
      if (next === undefined) return
      if (next.command.abort.signal.aborted) continue
      const work = this.run(next.command, next.order).finally(() => {
        this.running.delete(work)
        this.runNext()
      })
      this.running.add(work)
    }
  }

  private async run(command: Command, order: SealedJob): Promise<void> {
    const { signal } = command.abort
    try {
      this.finish(command, await runSealed(this.options.worker, command.commandId, order, signal))
    } catch (error) {
      if (signal.aborted) return
      this.options.failed(command.commandId, error)
      const { commandId, state } = command
      const error_ = { code: 'runtime_error' }
      this.finish(command, { command_id: commandId, attempt: state.attempt, status: 'failed', error: error_ })
    }
  }

  /** Stores the state on the disk before announcing it, so that an announced answer is never lost. */
  private finish(command: Command, state: CommandState): void {
    const current = this.commands.get(command.commandId)
    if (current !== command || command.abort.signal.aborted) return
    const done = { ...command, state }
    this.options.store.save(storedOf(done))
    this.commands.set(command.commandId, done)
    for (const wake of command.waiting) wake()
  }

  /** Removes answers after their deadline, and records 30 days later. */
  private forgetOld(): void {
    const now = this.now()
    for (const command of this.commands.values()) {
      const { commandId, state } = command
      if (state.status === 'running') continue
      if (now - command.createdMs > recordsKeptMs) {
        this.commands.delete(commandId)
        this.keys.delete(command.publicKeyHash)
        this.options.store.remove(commandId)
      } else if (state.status === 'completed' && now - command.deadlineMs > answersKeptMs) {
        const forgotten = { ...command, state: { ...base(state), status: 'cancelled' as const } }
        this.commands.set(commandId, forgotten)
        this.options.store.save(storedOf(forgotten))
      }
    }
  }
}

const base = ({ command_id, attempt }: CommandState) => ({ command_id, attempt })

const storedOf = ({ commandId, publicKeyHash, state, createdMs, deadlineMs }: StoredCommand): StoredCommand => ({
  commandId,
  publicKeyHash,
  state,
  createdMs,
  deadlineMs,
})

function ended({ waiting }: Command, waitMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      waiting.delete(done)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, waitMs)
    waiting.add(done)
    signal.addEventListener('abort', done, { once: true })
  })
}
