import type { ServiceKeeper, ServicePlace } from './service.ts'

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
  folders(env: ServicePlace['env'], home: string): { readonly data: string; readonly config: string }
  /** What parts the folders of a PATH. */
  readonly pathSeparator: string
  /** Of a service of the whole computer; null: services are of users here. */
  readonly systemServices: SystemServices | null
  readonly keeper: ServiceKeeper
}
