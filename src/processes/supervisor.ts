import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { backoffMs } from '../backoff.ts'
import { Alarm } from '../clock.ts'
import { waitAtMost, within } from '../deadline.ts'
import type { Log } from '../log.ts'
import type { Config } from '../settings/config.ts'
import { secondMs } from '../time.ts'
import { Child, type Environment } from './child.ts'
import type { Cleanup } from './cleanup.ts'
import type { Assignment } from './messages.ts'
import type { Storage } from './storage.ts'

/** A process that ended by itself is started again after this, doubled by each that did not last. */
const restarts = { firstMs: 250, maxMs: 30 * secondMs }
/** The wait before the next start, after this many starts in a row that did not last. */
export const restartWaitMs = (failures: number): number => backoffMs(restarts, failures)
/** A process that has served for this long counts as started well. */
const lastsMs = 10 * secondMs
/** Beyond the grace for requests, before a process that does not end is killed. */
const endMs = 15 * secondMs
/** The next closes its listener after this, if one does not say that it has closed its own. */
const closedMsMax = 10 * secondMs
/** A replacement that does not serve by then has failed. */
const readyMsMax = 60 * secondMs

interface Slot {
  child: Child | null
  /** Starts in a row that did not last. */
  failures: number
  readonly restart: Alarm
}

export interface SupervisorOptions {
  readonly config: Config
  readonly env: Environment
  readonly log: Log
  readonly storage: Storage
  readonly processes: number
}

/** Keeps the processes of one gateway: starts, replaces and ends them. They share one port and one PostgreSQL (§33). */
export class Supervisor {
  /** Of the process that started first: what it serves. */
  models: readonly string[] = []
  baseUrl = ''
  port: number
  private readonly slots: readonly Slot[]
  private readonly folder: string
  private readonly secret: string
  private leader = 0
  private stopping = false
  private replacing: Promise<void> | null = null
  /** All that run, also those that leave. */
  private readonly running = new Set<Child>()
  /** What is to take a place, and does not serve yet. */
  private fresh: Child | null = null
  private again = false

  constructor(private readonly options: SupervisorOptions) {
    this.port = options.config.SVC_PORT
    this.slots = Array.from({ length: options.processes }, (_, index) => ({
      child: null,
      failures: 0,
      restart: new Alarm(() => this.restart(index)),
    }))
    this.secret = options.config.SVC_CLUSTER_SECRET ?? randomBytes(32).toString('base64url')
    // Short and private, whatever the data folder is called: the path of a socket has room for a hundred bytes.
    this.folder = mkdtempSync(join(tmpdir(), 'penstock-'))
  }

  /** The process ids that serve. */
  get pids(): readonly number[] {
    return this.slots.flatMap(({ child }) => (child?.serves === true ? [child.pid] : []))
  }

  /** Resolves when all serve. Rejects with the operator's text when one cannot start; `stop` ends the others. */
  async start(cleanup: Cleanup): Promise<void> {
    cleanup.add(() => rmSync(this.folder, { recursive: true, force: true }))
    cleanup.add(() => this.stop())
    // The first finds out what runs on this computer, and which port is free.
    const first = await this.launch(0, true).ready
    this.port = first.port
    this.baseUrl = first.base_url
    this.models = first.models
    const others = this.slots.slice(1).map((_, at) => this.launch(at + 1, false))
    await Promise.all(others.map(({ ready }) => ready))
  }

  /** One after the other: a new process serves before the old one is told to end. Calls while it runs are one more round. */
  replace(): Promise<void> {
    if (this.replacing !== null) this.again = true
    this.replacing ??= this.replaceAll().finally(() => {
      this.replacing = null
    })
    return this.replacing
  }

  /** All say that they end, then one closes its listener after the other: what the kernel gives to a listener has one to take it. */
  async stop(): Promise<void> {
    this.stopping = true
    for (const { restart } of this.slots) restart.clear()
    this.fresh?.kill()
    const children = this.slots.flatMap(({ child }) => child ?? [])
    for (const child of children) child.order('drain')
    await waitAtMost(this.options.config.SVC_DRAIN_MS, Promise.all(children.map(({ exited }) => exited)))
    const ends: Promise<void>[] = []
    for (const child of children) {
      ends.push(this.end(child, child === children.at(-1) ? 'stop' : 'leave'))
      await waitAtMost(closedMsMax, child.closed)
    }
    await Promise.all([...ends, this.replacing])
  }

  private async replaceAll(): Promise<void> {
    do {
      this.again = false
      for (const index of this.slots.keys()) {
        if (this.stopping || !(await this.replaceOne(index))) break
      }
    } while (this.again && !this.stopping)
    this.options.log.info('processes_replaced', { processes: this.slots.length })
  }

  /** False: the new one does not start, and the old one stays. */
  private async replaceOne(index: number): Promise<boolean> {
    const slot = this.slots[index] as Slot
    const old = slot.child
    // It is being started again anyway.
    if (old === null) return true
    const fresh = this.spawn(index, false)
    const serves = await this.comesUp(fresh)
    // The old one may have died meanwhile: then it has been started again, or will be, with what is new.
    if (!serves || slot.child !== old || this.stopping) {
      fresh.kill()
      if (!serves && !this.stopping) this.options.log.error('process_not_replaced', { index })
      return serves
    }
    slot.child = fresh
    this.watch(index, fresh)
    if (this.leader === index) {
      old.order('follow')
      fresh.order('lead')
    }
    await this.end(old, 'leave')
    return true
  }

  /** False: it does not, or not in time. */
  private async comesUp(fresh: Child): Promise<boolean> {
    this.fresh = fresh
    try {
      await within(readyMsMax, fresh.ready)
      return true
    } catch {
      return false
    } finally {
      this.fresh = null
    }
  }

  private launch(index: number, leads: boolean): Child {
    const child = this.spawn(index, leads)
    const slot = this.slots[index] as Slot
    slot.child = child
    this.watch(index, child)
    return child
  }

  private spawn(index: number, leads: boolean): Child {
    const child = new Child(this.assignment(index, leads), this.options.env, (text) => process.stderr.write(text))
    this.running.add(child)
    void child.exited.then(() => this.running.delete(child))
    return child
  }

  /** The first that is free: other gateways still ask a process that leaves for its nodes. */
  private freePeerPort(): number {
    const taken = new Set([...this.running].map(({ assignment }) => assignment.peer_port))
    let at = 0
    while (taken.has(at)) at++
    return at
  }

  private assignment(index: number, leads: boolean): Assignment {
    const { url, folder, keys } = this.options.storage
    return {
      index,
      port: this.port,
      peer_port: this.freePeerPort(),
      database_url: url,
      peppers: [...keys.peppers],
      secrets_keys: [...keys.secretsKeys],
      audit_keys: [...keys.auditKeys],
      router_keys: [...keys.routerKeys],
      webhook_keys: [...keys.webhookKeys],
      log_keys: [...keys.logKeys],
      data_folder: folder?.path ?? null,
      role_tokens_in_database: keys.roleTokensInDatabase,
      cluster_secret: this.secret,
      socket_folder: this.folder,
      leads,
    }
  }

  private watch(index: number, child: Child): void {
    void child.exited.then(({ code, signal }) => {
      rmSync(join(this.folder, `${index}-${child.pid}.sock`), { force: true })
      const slot = this.slots[index] as Slot
      if (slot.child !== child) return
      slot.child = null
      if (this.stopping) return
      if (!child.leaving) this.options.log.warn('process_lost', { index, code, signal })
      slot.failures = performance.now() - child.startedMs > lastsMs ? 0 : slot.failures + 1
      if (this.leader === index) this.leadElsewhere()
      slot.restart.set(restartWaitMs(slot.failures))
    })
  }

  private restart(index: number): void {
    const child = this.launch(index, this.leader === index)
    const served = () => this.options.log.info('process_restarted', { index })
    child.ready.then(served, () => this.options.log.error('process_does_not_start', { index }))
  }

  private leadElsewhere(): void {
    const next = this.slots.findIndex(({ child }) => child?.serves === true)
    if (next === -1) return
    this.leader = next
    this.slots[next]?.child?.order('lead')
  }

  private async end(child: Child, order: 'leave' | 'stop'): Promise<void> {
    child.order(order)
    const { SVC_DRAIN_MS, SVC_SHUTDOWN_GRACE_MS } = this.options.config
    const timer = setTimeout(() => child.kill(), SVC_DRAIN_MS + SVC_SHUTDOWN_GRACE_MS + endMs)
    await child.exited
    clearTimeout(timer)
  }
}
