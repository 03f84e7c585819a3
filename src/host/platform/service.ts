import { createHash } from 'node:crypto'

/** `user`: starts with this user's session. `system`: starts with the computer, and needs an administrator. */
export type ServiceScope = 'user' | 'system'
export type ServiceKind = 'gateway' | 'agent'

/** A program that the system is to run. Nothing here is secret: every user of the computer can read it. */
export interface ServiceSpec {
  readonly kind: ServiceKind
  readonly scope: ServiceScope
  /** The program by its absolute path, then its arguments. */
  readonly command: readonly string[]
  /** Absolute. Where the program runs. */
  readonly folder: string
  readonly environment: Readonly<Record<string, string>>
  /** A private file with further variables, one NAME=value a line. It may be absent. */
  readonly environmentFile: string
  /** The user as whom a system service runs. */
  readonly runAs: string
}

/** Who installs. */
export interface ServicePlace {
  readonly home: string
  readonly uid: number
  readonly env: Readonly<Record<string, string | undefined>>
}

export interface ServiceFile {
  /** Absolute. */
  readonly path: string
  readonly text: string
  /** What the system reads: task files of Windows are UTF-16 with a mark of their byte order. */
  readonly encoding: 'utf8' | 'utf16le'
}

/** A command of the system's own tool, as its arguments. */
export interface ServiceStep {
  readonly command: readonly string[]
  /** What it means when this fails, and the work goes on. null: then nothing is installed. */
  readonly otherwise: string | null
}

export interface ServiceState {
  readonly state: 'running' | 'starting' | 'stopped' | 'failed' | 'absent' | 'unknown'
  /** Process id of the running program. */
  readonly pid: number | null
  /** Whether it starts by itself; null: the system does not say. */
  readonly automatic: boolean | null
}

/** What one command of the system answered. */
export interface Answered {
  readonly code: number
  readonly out: string
}

export type ServiceName = Pick<ServiceSpec, 'kind' | 'scope'>

/** How one system keeps services: all of it is data, which a dry run prints and `service-work.ts` carries out. */
export interface ServiceKeeper {
  /** As people call it. */
  readonly title: string
  /** False: a service has the variables of its user's account, and no file of its own. */
  readonly readsVariables: boolean
  /** The tool that must be on the PATH. */
  readonly tool: string
  file(spec: ServiceSpec, place: ServicePlace): ServiceFile
  /** Where `file` puts it. */
  path(service: ServiceName, place: ServicePlace): string
  /** After the file was written. `changed`: what runs is of another text. */
  start(service: ServiceName, place: ServicePlace, changed: boolean): readonly ServiceStep[]
  /** Before the file is removed. */
  stop(service: ServiceName, place: ServicePlace): readonly ServiceStep[]
  /** After the file was removed, or was put back. */
  forget(service: ServiceName): readonly ServiceStep[]
  /** The command that shows what the service wrote. */
  logs(service: ServiceName, place: ServicePlace): string
  query(service: ServiceName, place: ServicePlace): readonly string[]
  read(answered: Answered): ServiceState
}

/** Why a service cannot be made or removed, in a sentence for the person who asked. */
export class ServiceFault extends Error {
  override readonly name = 'ServiceFault'
}

/** Stands in a text where its mark goes. */
export const markPlace = '@@mark@@'
const markForm = /penstock:sha256:([0-9a-f]{64})/

const digestOf = (text: string) => createHash('sha256').update(text).digest('hex')

/** The text with a mark by which its writer knows it again, and knows whether somebody has edited it. */
export const withMark = (text: string): string => text.replace(markPlace, `penstock:sha256:${digestOf(text)}`)

/** Who wrote a text: `ours` as it stands, `edited` by somebody since, or `foreign`. */
export function authorOf(text: string): 'ours' | 'edited' | 'foreign' {
  const [mark, digest] = markForm.exec(text) ?? []
  if (mark === undefined) return 'foreign'
  return digestOf(text.replace(mark, markPlace)) === digest ? 'ours' : 'edited'
}

const wordCharactersMax = 4_096

/** Throws `ServiceFault` for a word that no unit can hold, whatever the system. */
export function checkWord(word: string): string {
  if (/[\u0000-\u001f\u007f]/.test(word) || word.length > wordCharactersMax) {
    throw new ServiceFault(
      `A service cannot hold ${JSON.stringify(word.slice(0, 80))}: paths and options may have no control characters and at most ${wordCharactersMax} characters.`,
    )
  }
  return word
}
