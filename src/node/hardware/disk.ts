import { statfs as kernelStatfs } from 'node:fs/promises'
import { within } from '../../deadline.ts'
import { bytesOfMb } from './numbers.ts'

/** What the kernel says of a file system: free blocks, and bytes in each. */
export type Statfs = (folder: string) => Promise<{ readonly bavail: number; readonly bsize: number }>

/** Asks how much room a folder's file system has. A network drive that is gone never answers, so no second question joins it there. */
export class DiskRoom {
  private isAsked = false

  constructor(private readonly statfs: Statfs = kernelStatfs) {}

  /** MiB; undefined: unknown, or not known within the bound. Never rejects. */
  async freeMb(folder: string, boundMs: number): Promise<number | undefined> {
    if (this.isAsked) return undefined
    this.isAsked = true
    const answer = this.statfs(folder).finally(() => {
      this.isAsked = false
    })
    try {
      const { bavail, bsize } = await within(boundMs, answer)
      return Math.floor((bavail * bsize) / bytesOfMb)
    } catch {
      return undefined
    }
  }
}
