import { programFile } from '../../host/program-files.ts'
import { bundlePage, type Files } from './console-page.ts'

const pathOf = (name: string) => programFile(`src/verify-page/${name}`)
/** The folder in a built program, which contains the files already. */
export const builtVerifyPage = 'verify-page'

/** The page where anybody verifies a proof, with the code of `penstock verify` (§31). */
export const bundleVerifyPage = (): Promise<Files> =>
  bundlePage({
    entries: [pathOf('main.ts'), pathOf('page.css')],
    html: pathOf('index.html'),
    values: {},
    instead: { 'hash-wasm': pathOf('hashes.ts') },
  })
