import { verbs } from './registry.ts'
import { runProcess } from './run-process.ts'

await runProcess(verbs, process.argv.slice(2))
