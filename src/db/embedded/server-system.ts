import type { ChildProcess } from 'node:child_process'
import type { Account } from './embedded-account.ts'

/** How clients on this computer reach the server: by the folder of its Unix socket, or by a port of the loopback address. */
export type Reach = { readonly socketFolder: string } | { readonly port: number }

/** Where one embedded server lives and as whom it runs. */
export interface Place {
  /** null if the server runs as the gateway's own user. */
  readonly account: Account | null
  readonly accountShared: boolean
  /** The data folder of the gateway. */
  readonly root: string
  /** Holds `data`; belongs to the account. */
  readonly home: string
  readonly data: string
  readonly reach: Reach
  /** Belongs to the gateway's user, so that the server's account cannot redirect our writes. */
  readonly logFile: string
  readonly password: string
  /** For copies of the programs. */
  readonly copiesFolder: string
}

export interface Binaries {
  readonly initdb: string
  readonly postgres: string
}

/** `fast`: open transactions are rolled back. `immediate`: the next start recovers. */
export type Ending = 'fast' | 'immediate'

/** A program that ends the server when its own standard input has ended and a time has passed. */
export interface KeeperProgram {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

export interface Kept {
  readonly place: Place
  /** Holds the word of the newest keeper, alone in its line. */
  readonly wordFile: string
  readonly word: string
  readonly graceSeconds: number
  /** So long a fast end may take before an immediate one follows, s. */
  readonly stopSeconds: number
}

/** What one system does its own way to run the server. */
export interface ServerSystem {
  /** For PostgreSQL's programs: none of our secrets, since others on this computer may read it. */
  env(): Readonly<Record<string, string>>
  /** Finds or makes how the server of this folder is reached; the same one each time. Throws `EmbeddedDatabaseError`. */
  reach(root: string, home: string, account: Account | null): Reach
  /** How the server is reached from this start on, which has found none that runs. */
  settle(place: Place): Reach
  /** Of the server, by which it is reached so. */
  settings(reach: Reach): Readonly<Record<string, string>>
  /** Whether the process is the server of this place. Process ids are reused, in containers often at once. */
  isServer(pid: number, place: Place): boolean
  /** Starts the server with these arguments, on its data. It outlives this process. The child has ended when it did not start. */
  launch(place: Place, binaries: Binaries, args: readonly string[]): ChildProcess
  /** Asks the server to end. `binaries`: found when they are needed. Throws what that throws. */
  end(pid: number, how: Ending, binaries: () => Binaries): void
  /** What the exit code of one of PostgreSQL's programs says by itself; null: nothing. */
  meaning(exitCode: number | null): string | null
  /** `binaries`: found when they are needed. Throws what that throws. */
  keeper(kept: Kept, binaries: () => Binaries): KeeperProgram
}
