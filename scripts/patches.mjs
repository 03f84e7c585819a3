// Applies `patches/NAME@VERSION.patch` to the installed packages. Applying twice is the same as applying once, so whoever
// installed, and however: the launcher and the tests do it before anything of ours is loaded.
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The changed files of a patch as `git diff` writes it, each with its hunks. */
function parsePatch(text) {
  return text
    .split(/^diff --git /m)
    .slice(1)
    .map((part) => {
      const [head, ...parts] = part.split(/^(?=@@ )/m)
      return { path: /^\+\+\+ b\/(.+)$/m.exec(head)[1], hunks: parts.map(parseHunk) }
    })
}

function parseHunk(text) {
  const [head, ...lines] = text.replace(/\n$/, '').split('\n')
  const side = (sign) => lines.filter((line) => line[0] === ' ' || line[0] === sign).map((line) => line.slice(1))
  return { at: Number(/\+(\d+)/.exec(head)[1]) - 1, before: side('-'), after: side('+') }
}

const stands = (lines, at, wanted) => wanted.every((line, index) => lines[at + index] === line)

/** The patched text; null where the patch does not fit. Hunks come in order, so each finds its place in the new file. */
function patchedText(text, hunks) {
  const lines = text.split('\n')
  if (hunks.every(({ at, after }) => stands(lines, at, after))) return text
  for (const { at, before, after } of hunks) {
    if (!stands(lines, at, before)) return null
    lines.splice(at, before.length, ...after)
  }
  return lines.join('\n')
}

/** By a new file under the name: another process may read it, and npm and Bun may share the old one among projects. */
function replace(file, text) {
  const fresh = `${file}.${process.pid}`
  writeFileSync(fresh, text)
  renameSync(fresh, file)
}

function patchFile(file, hunks, patch) {
  // Kept beside it: the patch of a later version is made for what was installed, not for what an earlier patch made of it.
  const original = `${file}.orig`
  const text = readFileSync(existsSync(original) ? original : file, 'utf8')
  const wanted = patchedText(text, hunks)
  if (wanted === null) throw new Error(`${patch} does not fit ${file}. Install the package again: npm ci`)
  if (wanted === readFileSync(file, 'utf8')) return
  replace(original, text)
  replace(file, wanted)
}

/** Throws where a patch does not belong to what is installed. */
export function applyPatches(root) {
  for (const name of readdirSync(join(root, 'patches'))) {
    const [, packageName, version] = /^(.+)@(.+)\.patch$/.exec(name)
    const folder = join(root, 'node_modules', packageName)
    const installed = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version
    const patch = join('patches', name)
    if (installed !== version) throw new Error(`${patch} is not for the installed version ${installed}.`)
    for (const { path, hunks } of parsePatch(readFileSync(join(root, patch), 'utf8'))) {
      patchFile(join(folder, path), hunks, patch)
    }
  }
}
