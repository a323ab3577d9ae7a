// Builds dist/page.html, the page with the places that titan-analyze fills, and dist/page.inc, the same as a literal
// for the compiler. The page may load nothing: its policy names its one script and its one style by their hashes.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild-wasm";

const here = dirname(fileURLToPath(import.meta.url));
const read = (...parts) => readFileSync(join(here, ...parts), "utf8");

async function bundled(entry, options) {
    const result = await build({
        entryPoints: [join(here, "src", entry)],
        bundle: true,
        minify: true,
        write: false,
        charset: "utf8",
        legalComments: "none",
        metafile: true,
        ...options,
    });
    return { text: result.outputFiles[0].text.trim(), inputs: Object.keys(result.metafile.inputs) };
}

const script = await bundled("main.ts", { format: "iife", target: "es2022" });
const style = await bundled("page.css", { target: ["chrome110", "firefox115", "safari16"] });

// The licences of the packages whose files are in the bundle.
const packages = new Set();
for (const input of [...script.inputs, ...style.inputs]) {
    const name = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1];
    if (name) {
        packages.add(name);
    }
}
const licences = [...packages].sort().map((name) => {
    const about = JSON.parse(read("node_modules", name, "package.json"));
    return `${name} ${about.version} (${about.license})\n\n${read("node_modules", name, "LICENSE").trim()}\n`;
});

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const policy = [
    "default-src 'none'",
    `script-src ${hash(script.text)}`,
    `style-src ${hash(style.text)}`,
    "base-uri 'none'",
    "form-action 'none'",
].join("; ");

if (script.text.includes("</script") || style.text.includes("</style") || /@REPORT_/.test(script.text)) {
    throw new Error("the bundle holds a text that ends its element");
}
const fill = (text, place, content) => text.split(place).join(content);
let page = read("src", "page.html");
page = fill(page, "@POLICY@", policy);
page = fill(page, "@STYLE@", style.text);
page = fill(page, "@LICENCES@", licences.join("\n").replaceAll("<", "&lt;"));
page = fill(page, "@SCRIPT@", script.text);

mkdirSync(join(here, "dist"), { recursive: true });
writeFileSync(join(here, "dist", "page.html"), page);
writeFileSync(join(here, "dist", "licences.txt"), licences.join("\n"));
if (page.includes(')titan"')) {
    throw new Error("the page holds the end of its literal");
}
writeFileSync(join(here, "dist", "page.inc"), `R"titan(${page})titan"\n`);
console.log(`page/dist/page.html: ${Math.round(page.length / 1024)} KiB, with ${[...packages].sort().join(", ")}`);
