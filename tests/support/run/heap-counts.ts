/**
 * A preload for a program whose objects are counted: at each SIGUSR2 it writes how many of each type its heap holds. Started with
 * `countedEnvironment` its collector never runs, so that the difference of two counts is what was made between them.
 */
import { heapStats } from 'bun:jsc'
import { renameSync, writeFileSync } from 'node:fs'
import { heapCountsFile } from './heap-counting.ts'

const file = process.env[heapCountsFile]
if (file === undefined) throw new Error(`${heapCountsFile} is not set`)
let counts = 0
process.on('SIGUSR2', () => {
  const text = JSON.stringify(heapStats().objectTypeCounts)
  const whole = `${file}.${counts++}`
  // Whoever waits for the file finds all of it.
  writeFileSync(`${whole}.part`, text)
  renameSync(`${whole}.part`, whole)
})
