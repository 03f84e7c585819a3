import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import {
  type Answered,
  authorOf,
  ServiceFault,
  type ServiceFile,
  type ServiceKeeper,
  type ServiceName,
  type ServicePlace,
  type ServiceSpec,
  type ServiceState,
  type ServiceStep,
} from './service.ts'

/** A service that is stopped may finish its answers first: more than the longest `TimeoutStopSec`, ms. */
const stepMsMax = 90_000
/** A system that does not answer within this is not waited for, ms. */
const queryMsMax = 5_000
const wordsMax = 400

export interface ServiceWork {
  readonly keeper: ServiceKeeper
  readonly place: ServicePlace
  /** Ends a command of the system that is under way. */
  readonly signal?: AbortSignal
}

/** What an installation would do, or has done. */
export interface ServicePlan {
  readonly file: ServiceFile
  /** False: the file is there with this text. */
  readonly changes: boolean
  readonly steps: readonly ServiceStep[]
}

async function run({ place, signal }: ServiceWork, command: readonly string[], withinMs: number) {
  const [tool = ''] = command
  // The person's own PATH finds the tool, whatever this process was started with.
  const program = Bun.which(tool, { PATH: place.env.PATH ?? '' })
  if (program === null) throw new ServiceFault(`${tool} is not on the PATH of this computer.`)
  const within = AbortSignal.timeout(withinMs)
  const child = Bun.spawn([program, ...command.slice(1)], {
    env: { ...place.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal: signal === undefined ? within : AbortSignal.any([within, signal]),
  })
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, out, err, late: within.aborted, left: signal?.aborted === true }
}

/** Runs steps in order. Returns what those said that may fail; throws `ServiceFault` for any other that fails. */
async function runAll(work: ServiceWork, steps: readonly ServiceStep[]): Promise<readonly string[]> {
  const notes: string[] = []
  for (const { command, otherwise } of steps) {
    const { code, err, out, late, left } = await run(work, command, stepMsMax)
    if (code === 0) continue
    if (otherwise !== null && !left) {
      if (otherwise !== '') notes.push(otherwise)
      continue
    }
    const said = (err.trim() || out.trim()).slice(0, wordsMax)
    const why = left
      ? 'it was interrupted'
      : late
        ? `it took longer than ${stepMsMax / 1_000} s`
        : said || `exit code ${code}`
    throw new ServiceFault(`${command.join(' ')} failed: ${why}`)
  }
  return notes
}

function textOf({ path, encoding }: Pick<ServiceFile, 'path' | 'encoding'>): string | null {
  try {
    return readFileSync(path, encoding).replace(/^\ufeff/, '')
  } catch (error) {
    const { code } = error as { readonly code?: string }
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    throw new ServiceFault(`${path} cannot be read (${code}).`)
  }
}

function writeText({ path, text, encoding }: ServiceFile): void {
  const beside = `${path}.new`
  try {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(beside, encoding === 'utf16le' ? `\ufeff${text}` : text, { encoding, mode: 0o644 })
    chmodSync(beside, 0o644)
    renameSync(beside, path)
  } catch (error) {
    rmSync(beside, { force: true })
    throw new ServiceFault(`${path} cannot be written (${(error as { readonly code?: string }).code}).`)
  }
}

/** Throws `ServiceFault` where the file is somebody else's. */
function checkAuthor(path: string, text: string | null): void {
  const author = text === null ? 'ours' : authorOf(text)
  if (author === 'foreign') {
    throw new ServiceFault(`${path} was not written by this command, so it stays as it is. Move it away first.`)
  }
  if (author === 'edited') {
    throw new ServiceFault(`${path} was edited after this command wrote it, so it stays as it is. Move it away first.`)
  }
}

/** What an installation would write and run. Changes nothing; throws `ServiceFault` where it could not work. */
export function planService({ keeper, place }: ServiceWork, spec: ServiceSpec): ServicePlan {
  const file = keeper.file(spec, place)
  const present = textOf(file)
  checkAuthor(file.path, present)
  const changes = present !== file.text
  return { file, changes, steps: keeper.start(spec, place, changes) }
}

/** Throws `ServiceFault` where the system's own tool is absent. */
export function checkKeeper({ keeper, place }: ServiceWork): void {
  if (Bun.which(keeper.tool, { PATH: place.env.PATH ?? '' }) !== null) return
  throw new ServiceFault(
    `This computer has no ${keeper.tool}, so ${keeper.title} does not keep its services. Start the program by what does.`,
  )
}

/**
 * Installs the service and starts it. Where a step fails, the file is again what it was, and a service that was not there before is stopped. Returns what to tell the person.
 * Throws `ServiceFault`.
 */
export async function installService(work: ServiceWork, spec: ServiceSpec): Promise<readonly string[]> {
  checkKeeper(work)
  const { file, changes, steps } = planService(work, spec)
  const before = textOf(file)
  if (changes) writeText(file)
  try {
    return await runAll(work, steps)
  } catch (error) {
    if (changes) await putBack(work, spec, file, before)
    throw error
  }
}

async function putBack(work: ServiceWork, spec: ServiceSpec, file: ServiceFile, before: string | null): Promise<void> {
  // The first fault is the one to tell. A signal that ended the first step must not end these.
  const { signal: _, ...unhurried } = work
  if (before === null) {
    // A service that was enabled before a later step failed would outlive its file.
    await runAll(unhurried, work.keeper.stop(spec, work.place)).catch(() => [])
    rmSync(file.path, { force: true })
  } else writeText({ ...file, text: before })
  await runAll(unhurried, work.keeper.forget(spec)).catch(() => [])
}

/** Stops the service and removes its file. False: there was none. Throws `ServiceFault`, also where the file is not ours. */
export async function uninstallService(work: ServiceWork, service: ServiceName): Promise<boolean> {
  const path = work.keeper.path(service, work.place)
  const encoding = path.endsWith('.xml') ? 'utf16le' : 'utf8'
  const present = textOf({ path, encoding })
  if (present === null) return false
  checkAuthor(path, present)
  checkKeeper(work)
  await runAll(work, work.keeper.stop(service, work.place))
  rmSync(path, { force: true })
  await runAll(work, work.keeper.forget(service))
  return true
}

const unknown: ServiceState = { state: 'unknown', pid: null, automatic: null }

/** What the system says of the service; `unknown` where it has no tool or does not answer. */
export async function serviceState(work: ServiceWork, service: ServiceName): Promise<ServiceState> {
  try {
    const { code, out, late }: Answered & { late: boolean } = await run(
      work,
      work.keeper.query(service, work.place),
      queryMsMax,
    )
    return late ? unknown : work.keeper.read({ code, out })
  } catch (error) {
    if (error instanceof ServiceFault) return unknown
    throw error
  }
}
