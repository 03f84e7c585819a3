/** One of several processes of a gateway (§33). */
export interface ProcessPlace {
  /** Counted from 0. */
  readonly index: number
  /** Where the doors of all processes are: a folder of Unix sockets that no other account can read. */
  readonly socketFolder: string
  /** The name of its own socket there. */
  readonly socketName: string
  /** By which the processes know each other. */
  readonly secret: string
  /** Where the other processes, and other gateways, reach this one. */
  readonly doors: readonly ({ readonly unix: string } | { readonly hostname: string; readonly port: number })[]
  /** It looks after what runs on its own computer. */
  readonly leads: boolean
}
