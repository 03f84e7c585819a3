import type { ServiceKeeper, ServicePlace } from './service.ts'

/** What the system lets a program do with a folder of its own. Both throw the system's errors. */
export interface FolderRules {
  /** Closes it to all other users. `groupBits`: what of its permissions its group keeps, where there are such bits. */
  close(path: string, groupBits?: number): void
  /** Has the names in it written to the disk. */
  sync(path: string): void
}

export interface SystemServices {
  /** Where it finds other programs. */
  readonly searched: readonly string[]
  /** Folders that it cannot see. */
  readonly hidden: readonly string[]
}

/** What differs from one operating system to the next: one file for each, and a row in `platforms.ts`. */
export interface Platform {
  /** As people call it. */
  readonly title: string
  /** Where programs keep what belongs to a user: what they made, and what the user set. */
  readonly folders: (env: ServicePlace['env'], home: string) => { readonly data: string; readonly config: string }
  /** True where a service of a user has that user's PATH by itself. */
  readonly servicesHavePath: boolean
  /** Of a service of the whole computer; null: services are of users here. */
  readonly systemServices: SystemServices | null
  readonly keeper: ServiceKeeper
  readonly folderRules: FolderRules
  /** Ends a process with all that it has started, at once; null: groups of processes and signals do that. */
  readonly endTree: ((pid: number) => void) | null
}
